package plugin_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/rest"
)

// cluster contains the namespaces "active" and "dying"; reading "broken" fails.
type cluster struct{}

func (cluster) Get(_ context.Context, asked types.NamespacedName) (*corev1.Namespace, error) {
	name, phase := asked.Name, corev1.NamespaceActive
	switch name {
	case "active":
	case "dying":
		phase = corev1.NamespaceTerminating
	case "broken":
		return nil, errDisk
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}, nil
}

func TestNamespaceLifecycle(t *testing.T) {
	t.Parallel()
	const (
		missing = `namespaces "missing" not found`
		dying   = ` "x" is forbidden: unable to create new content in namespace dying because it is being terminated`
	)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	impostor := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "namespaces"}
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "localsubjectaccessreviews"}
	protected := func(name string) string {
		return `namespaces "` + name + `" is forbidden: this namespace may not be deleted`
	}
	for _, test := range []struct {
		op        admission.Operation
		resource  schema.GroupVersionResource
		sub       string
		namespace string
		name      string
		code      int32
		message   string
	}{
		{op: admission.Create, resource: pods, namespace: "active"},
		{op: admission.Create, resource: pods, namespace: "missing", code: 404, message: missing},
		{op: admission.Create, resource: pods, namespace: "dying", code: 403, message: "pods" + dying},
		{op: admission.Create, resource: pods, sub: "eviction", namespace: "dying", code: 403, message: "pods" + dying},
		{op: admission.Create, resource: deployments, namespace: "dying", code: 403, message: "deployments.apps" + dying},
		{op: admission.Create, resource: impostor, namespace: "missing", code: 404, message: missing},
		{op: admission.Create, resource: nodes},
		{op: admission.Create, resource: reviews, namespace: "missing"},
		{op: admission.Delete, resource: pods, namespace: "dying"},
		{op: admission.Delete, resource: pods, namespace: "missing"},
		{op: admission.Create, resource: namespaces, name: "missing", namespace: "missing"},
		{op: admission.Delete, resource: namespaces, name: "dying", namespace: "dying"},
		{op: admission.Delete, resource: namespaces, name: "default", namespace: "default", code: 403, message: protected("default")},
		{op: admission.Delete, resource: namespaces, name: "kube-system", code: 403, message: protected("kube-system")},
		{op: admission.Delete, resource: namespaces, name: "kube-public", code: 403, message: protected("kube-public")},
		{op: admission.Delete, resource: namespaces, name: "kube-node-lease"},
		{op: admission.Delete, resource: impostor, name: "default", namespace: "active"},
	} {
		if test.name == "" {
			test.name = "x"
		}
		t.Run(string(test.op)+" "+test.resource.Resource+test.sub+" "+test.namespace+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			err := plugin.NamespaceLifecycle{Namespaces: cluster{}}.Mutate(t.Context(), &admission.Attributes{Request: admission.Request{
				Operation: test.op, Resource: served(test.resource, test.sub), Namespace: test.namespace, Name: test.name,
			}})
			var status apierrors.APIStatus
			if test.code == 0 {
				if err != nil {
					t.Errorf("rejected: %v", err)
				}
				return
			}
			if !errors.As(err, &status) || status.Status().Code != test.code || status.Status().Message != test.message {
				t.Errorf("error %v; want %d %s", err, test.code, test.message)
			}
			if cause, ok := apierrors.StatusCause(err, corev1.NamespaceTerminatingCause); ok != (test.code == 403 && test.op == admission.Create) || ok && cause.Field != "metadata.namespace" {
				t.Errorf("cause %+v", cause)
			}
		})
	}
}

// TestNamespaceLifecycleHandles checks that connections are not handled, as in kube-apiserver, and
// that updates are always allowed.
func TestNamespaceLifecycleHandles(t *testing.T) {
	t.Parallel()
	for op, want := range map[admission.Operation]bool{admission.Create: true, admission.Delete: true, admission.Update: false, admission.Connect: false} {
		if got := (plugin.NamespaceLifecycle{}).Handles(op); got != want {
			t.Errorf("handles %s: %t, want %t", op, got, want)
		}
	}
}

func served(r schema.GroupVersionResource, subresource string) *rest.Resource {
	return &rest.Resource{GroupVersion: r.GroupVersion(), Name: r.Resource, Subresource: subresource}
}

func TestNamespaceLifecycleKeepsErrors(t *testing.T) {
	t.Parallel()
	err := plugin.NamespaceLifecycle{Namespaces: cluster{}}.Mutate(t.Context(), &admission.Attributes{Request: admission.Request{
		Operation: admission.Create, Resource: served(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, ""), Namespace: "broken",
	}})
	if err == nil || err.Error() != "disk trouble" {
		t.Errorf("error %v", err)
	}
	if name := (plugin.NamespaceLifecycle{}).Name(); name != "NamespaceLifecycle" {
		t.Errorf("name %s", name)
	}
}
