package quota

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
)

// countPrefix is the prefix of the quota resources that count the objects of any API resource.
const countPrefix = "count/"

// The resources whose objects have usage other than their number.
var (
	pods           = schema.GroupResource{Resource: "pods"}
	services       = schema.GroupResource{Resource: "services"}
	claims         = schema.GroupResource{Resource: "persistentvolumeclaims"}
	resourceClaims = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
)

// evaluator computes the usage of one resource's objects. The zero value only counts objects.
type evaluator struct {
	// count is the quota resource for the number of objects. alias is an older name of count, or "".
	count, alias corev1.ResourceName
	// names reports whether a quota resource, other than count and alias, limits these objects.
	names func(corev1.ResourceName) bool
	// usage adds the usage of an object, except count and alias. now determines whether a pod's
	// deadline has passed.
	usage func(used corev1.ResourceList, obj codec.Object, now time.Time)
	// scope reports whether an object is in a scope.
	scope func(corev1.ScopedResourceSelectorRequirement, codec.Object) bool
	// constraints returns an error if a new object does not set a field that a quota requires.
	constraints func(limited []corev1.ResourceName, obj codec.Object) error
	// updates reports whether updates through subresource can increase the usage of an object.
	updates     bool
	subresource string
}

// evaluatorOf returns the evaluator of a resource, or false if quotas ignore it.
func evaluatorOf(r schema.GroupResource) (evaluator, bool) {
	if isIgnored(r) {
		return evaluator{}, false
	}
	e := evaluator{count: CountName(r)}
	switch r {
	case schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Resource: "secrets"},
		schema.GroupResource{Resource: "replicationcontrollers"}, schema.GroupResource{Resource: "resourcequotas"}:
		e.alias = corev1.ResourceName(r.Resource)
	case pods:
		e.names, e.usage, e.scope, e.constraints = isPodResource, podUsage, podInScope, podConstraints
		e.updates, e.subresource = true, "resize"
	case services:
		e.alias, e.updates = corev1.ResourceServices, true
		e.names, e.usage = isServiceResource, serviceUsage
	case claims:
		e.alias, e.updates = corev1.ResourcePersistentVolumeClaims, true
		e.names, e.usage, e.scope = isClaimResource, claimUsage, claimInScope
	case resourceClaims:
		e.updates = true
		e.names, e.usage = isDeviceResource, deviceUsage
	}
	return e, true
}

// isIgnored reports whether quotas ignore a resource, as in kube-apiserver: events and resources
// that are not stored.
func isIgnored(r schema.GroupResource) bool {
	switch r.Group {
	case "":
		return r.Resource == "events" || r.Resource == "bindings" || r.Resource == "componentstatuses"
	case "events.k8s.io":
		return r.Resource == "events"
	case "authentication.k8s.io", "authorization.k8s.io":
		return true
	}
	return false
}

// CountName returns the quota resource that counts the objects of a resource.
func CountName(r schema.GroupResource) corev1.ResourceName {
	if r.Group == "" {
		return corev1.ResourceName(countPrefix + r.Resource)
	}
	return corev1.ResourceName(countPrefix + r.Resource + "." + r.Group)
}

// readsContents reports whether the usage depends on the contents of an object.
func (e *evaluator) readsContents() bool { return e.usage != nil || e.scope != nil }

// tracks reports whether a quota resource limits these objects.
func (e *evaluator) tracks(name corev1.ResourceName) bool {
	return name == e.count || name == e.alias && name != "" || e.names != nil && e.names(name)
}

// tracksAny returns the quota resources of a list that limit these objects, sorted.
func (e *evaluator) tracksAny(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range list {
		if e.tracks(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// usageOf returns the usage of an object.
func (e *evaluator) usageOf(obj codec.Object, now time.Time) corev1.ResourceList {
	used := corev1.ResourceList{e.count: one()}
	if e.alias != "" {
		used[e.alias] = one()
	}
	if e.usage != nil {
		e.usage(used, obj, now)
	}
	return used
}

// enforces reports whether a write through a subresource can be rejected. Other writes are only
// charged.
func (e *evaluator) enforces(creates bool, subresource string) bool {
	if creates {
		return subresource == ""
	}
	return e.updates && subresource == e.subresource
}

// CountedResources returns the resources whose objects determine the usage of a list of quota resources.
func CountedResources(hard corev1.ResourceList) []schema.GroupResource {
	var all []schema.GroupResource
	add := func(r schema.GroupResource) {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	for name := range hard {
		if counted, ok := strings.CutPrefix(string(name), countPrefix); ok {
			add(schema.ParseGroupResource(counted))
			continue
		}
		for _, r := range [...]string{"configmaps", "secrets", "replicationcontrollers", "resourcequotas"} {
			if string(name) == r {
				add(schema.GroupResource{Resource: r})
			}
		}
		for _, r := range [...]schema.GroupResource{pods, services, claims, resourceClaims} {
			if e, _ := evaluatorOf(r); e.tracks(name) {
				add(r)
			}
		}
	}
	return all
}

func isServiceResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
}

// serviceUsage adds the load balancers and node ports of a service. It counts the requested node ports,
// because they are allocated later.
func serviceUsage(used corev1.ResourceList, obj codec.Object, _ time.Time) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return
	}
	ports, balancers := 0, 0
	switch spec := &service.Spec; spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers, ports = 1, len(spec.Ports)
		if allocate := spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
			ports = 0
			for i := range spec.Ports {
				if spec.Ports[i].NodePort != 0 {
					ports++
				}
			}
		}
	}
	used[corev1.ResourceServicesNodePorts], used[corev1.ResourceServicesLoadBalancers] = number(ports), number(balancers)
}

func one() resource.Quantity { return number(1) }

func number(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
