package webhooks

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// serviceDependencies returns the resources that must be writable so that a webhook behind a service can start.
func serviceDependencies() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("services"),
		corev1.SchemeGroupVersion.WithResource("endpoints"), discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
	}
}

// warnSelfDependency adds a warning for each webhook that can prevent its own recovery. Such a webhook
// intercepts writes of the resources in serviceDependencies in its own namespace, and a failed call of the
// webhook rejects the request.
func (p *plugin) warnSelfDependency(ctx context.Context, specs []admissionregistrationv1.MutatingWebhook) {
	for i := range specs {
		spec := &specs[i]
		service := spec.ClientConfig.Service
		if service == nil || !failsClosed(spec) || mayExcludeOwnPods(spec) {
			continue
		}
		var names []string
		for _, gvr := range serviceDependencies() {
			if p.intercepts(ctx, spec, gvr, service.Namespace) {
				names = append(names, gvr.Resource)
			}
		}
		if len(names) > 0 {
			request.AddWarning(ctx, fmt.Sprintf("webhook %q receives requests about %s in namespace %q, which contains its own service %q, and its failurePolicy is Fail: "+
				"while it is down, it rejects the requests that would restart it; exclude the namespace with its namespaceSelector",
				spec.Name, strings.Join(names, ", "), service.Namespace, service.Name))
		}
	}
}

// failsClosed reports whether a failed call of the webhook rejects the request.
func failsClosed(spec *admissionregistrationv1.MutatingWebhook) bool {
	return spec.FailurePolicy == nil || *spec.FailurePolicy != admissionregistrationv1.Ignore
}

// mayExcludeOwnPods reports whether the webhook has match conditions or an object selector, which may exclude
// the webhook's own pods.
func mayExcludeOwnPods(spec *admissionregistrationv1.MutatingWebhook) bool {
	labels := spec.ObjectSelector
	return len(spec.MatchConditions) > 0 || labels != nil && len(labels.MatchLabels)+len(labels.MatchExpressions) > 0
}

// intercepts reports whether a webhook receives requests for objects of a resource in a namespace.
func (p *plugin) intercepts(ctx context.Context, spec *admissionregistrationv1.MutatingWebhook, gvr schema.GroupVersionResource, namespace string) bool {
	if len(spec.Rules) == 0 {
		return false
	}
	m := match.New(resourcesOf(spec))
	resource := &rest.Resource{GroupVersion: gvr.GroupVersion(), Name: gvr.Resource, Version: &codec.Version{}}
	for _, op := range []admission.Operation{admission.Create, admission.Update} {
		subject := &match.Subject{
			Attributes: &admission.Attributes{Request: admission.Request{Operation: op, Resource: resource, Namespace: namespace}},
			Namespaces: expectedNamespaces{p.config.Namespaces},
		}
		if matched, err := m.Match(ctx, subject); err == nil && matched != nil {
			return true
		}
	}
	return false
}

// expectedNamespaces returns a missing namespace as if it existed, with only the label that every namespace
// has.
type expectedNamespaces struct{ match.Namespaces }

func (p expectedNamespaces) Get(ctx context.Context, name types.NamespacedName) (*corev1.Namespace, error) {
	namespace, err := p.Namespaces.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Labels: map[string]string{corev1.LabelMetadataName: name.Name}}}, nil
	}
	return namespace, err
}
