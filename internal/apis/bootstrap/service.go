package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	serviceName     = "kubernetes"
	servicePort     = 443
	servicePortName = "https"
	// cidrManager is the field manager for the status of the default ServiceCIDR.
	cidrManager = "kubernetes-service-cidr-controller"
)

// ensureService creates the service default/kubernetes and the IPAddress of its cluster IP. Until the first
// success, it also corrects the type and port of an existing service.
func (b *Bootstrap) ensureService(ctx context.Context) error {
	service := set{resource: corev1.SchemeGroupVersion.WithResource("services"), objects: []codec.Object{b.service()}}
	if !b.hook("bootstrap-controller").done.Load() {
		service.revise = reviseService
	}
	is, err := stored[*corev1.Service](ctx, b, service.resource, nameOf(service.objects[0]))
	if err != nil {
		return err
	}
	if is == nil || is.Spec.ClusterIP != b.serviceIP().String() {
		// Creating the service also allocates its address. If an existing service has another address, it is
		// not changed.
		return b.ensure(ctx, service)
	}
	return b.ensure(ctx, service, b.serviceAddress())
}

// stored returns a stored object, or nil if it does not exist. The object must not be modified.
func stored[T codec.Object](ctx context.Context, b *Bootstrap, gvr schema.GroupVersionResource, name types.NamespacedName) (T, error) {
	var none T
	reader, err := b.config.Stored(gvr.GroupResource())
	if err != nil {
		return none, err
	}
	record, err := reader.Get(ctx, name, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read %s %s: %w", gvr.Resource, name, err)
	}
	return codec.SharedAs[T](record)
}

func (b *Bootstrap) hook(name string) *Hook {
	i := slices.IndexFunc(b.hooks, func(h *Hook) bool { return h.Name == name })
	return b.hooks[i]
}

func (b *Bootstrap) serviceIP() netip.Addr { return b.config.ServiceRanges[0].Masked().Addr().Next() }

// service returns the declaration of the service default/kubernetes, including its cluster IP.
func (b *Bootstrap) service() *corev1.Service {
	policy, internal := corev1.IPFamilyPolicySingleStack, corev1.ServiceInternalTrafficPolicyCluster
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: serviceName,
			Labels: map[string]string{"provider": "kubernetes", "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: b.serviceIP().String(), IPFamilyPolicy: &policy, InternalTrafficPolicy: &internal,
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{
				Name: servicePortName, Protocol: corev1.ProtocolTCP, Port: servicePort, TargetPort: intstr.FromInt(b.config.Port),
			}},
		},
	}
	if b.config.NodePort != 0 {
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(b.config.NodePort)
	}
	return service
}

func family(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func reviseService(existing, wanted codec.Object) bool {
	is, should := existing.(*corev1.Service), wanted.(*corev1.Service)
	if is.Spec.Type == should.Spec.Type && slices.Equal(is.Spec.Ports, should.Spec.Ports) {
		return false
	}
	is.Spec.Type, is.Spec.Ports = should.Spec.Type, should.Spec.Ports
	return true
}

// serviceAddress returns the IPAddress that allocates the cluster IP to the service default/kubernetes.
func (b *Bootstrap) serviceAddress() set {
	ip := b.serviceIP()
	return set{resource: networkingv1.SchemeGroupVersion.WithResource("ipaddresses"), objects: []codec.Object{&networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(family(ip)), networkingv1.LabelManagedBy: "ipallocator.k8s.io",
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: metav1.NamespaceDefault, Name: serviceName,
		}},
	}}}
}

// ensureServiceCIDR creates the default ServiceCIDR with the configured ranges and sets its Ready condition. If
// an existing ServiceCIDR has only the first range, it adds the second.
func (b *Bootstrap) ensureServiceCIDR(ctx context.Context) error {
	gvr := networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	wanted := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: serviceName}}
	for _, r := range b.config.ServiceRanges {
		wanted.Spec.CIDRs = append(wanted.Spec.CIDRs, r.Masked().String())
	}
	if err := b.ensure(ctx, set{resource: gvr, objects: []codec.Object{wanted}, revise: reviseServiceCIDR}); err != nil {
		return err
	}
	is, err := stored[*networkingv1.ServiceCIDR](ctx, b, gvr, nameOf(wanted))
	if err != nil || is == nil || len(is.Status.Conditions) > 0 || !slices.Equal(is.Spec.CIDRs, wanted.Spec.CIDRs) {
		return err
	}
	return b.readyServiceCIDR(ctx)
}

func reviseServiceCIDR(existing, wanted codec.Object) bool {
	is, should := existing.(*networkingv1.ServiceCIDR), wanted.(*networkingv1.ServiceCIDR)
	if len(is.Spec.CIDRs) != 1 || len(should.Spec.CIDRs) != 2 || is.Spec.CIDRs[0] != should.Spec.CIDRs[0] {
		return false
	}
	is.Spec.CIDRs = should.Spec.CIDRs
	return true
}

func (b *Bootstrap) readyServiceCIDR(ctx context.Context) error {
	gv := networkingv1.SchemeGroupVersion
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gv.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": serviceName},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": networkingv1.ServiceCIDRConditionReady, "status": string(metav1.ConditionTrue),
			"message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": simulation.Now(ctx).UTC().Format(time.RFC3339),
		}}},
	}}
	cidrs := loopback.For[*networkingv1.ServiceCIDR](b.config.Access.As(nil, cidrManager), gv.WithResource("servicecidrs"))
	_, err := cidrs.Subresource("status").Apply(ctx, applied, true)
	if err != nil {
		return fmt.Errorf("set the condition Ready of the service CIDR: %w", err)
	}
	return nil
}
