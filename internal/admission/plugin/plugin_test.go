package plugin_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// stored contains the objects that a plugin can read.
type stored[T metav1.Object] []T

func (s stored[T]) Get(_ context.Context, name types.NamespacedName) (T, error) {
	for _, obj := range s {
		if obj.GetName() == name.Name && obj.GetNamespace() == name.Namespace {
			return obj, nil
		}
	}
	var none T
	if name.Name == "broken" {
		return none, errDisk
	}
	return none, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name.Name)
}

func (s stored[T]) List(_ context.Context, namespace string, _ rest.ListOptions) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, obj := range s {
			if (namespace == "" || obj.GetNamespace() == namespace) && !yield(obj, nil) {
				return
			}
		}
	}
}

var errDisk = errors.New("disk trouble")

// broken returns an error for all reads.
type broken[T any] struct{}

func (broken[T]) Get(context.Context, types.NamespacedName) (T, error) {
	var none T
	return none, errDisk
}

func (broken[T]) List(context.Context, string, rest.ListOptions) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, errDisk)
	}
}

func resource(group, name, subresource string) *rest.Resource {
	return &rest.Resource{GroupVersion: schema.GroupVersion{Group: group, Version: "v1"}, Name: name, Subresource: subresource}
}

func pods() *rest.Resource { return resource("", "pods", "") }

// creating returns a request that creates an object in the namespace "a".
func creating(r *rest.Resource, obj runtime.Object) *admission.Attributes {
	return &admission.Attributes{Request: admission.Request{Operation: admission.Create, Resource: r, Namespace: "a"}, Object: obj}
}

// updating returns a request that updates an object named "x" in the namespace "a".
func updating(r *rest.Resource, obj, old codec.Object) *admission.Attributes {
	return &admission.Attributes{Request: admission.Request{Operation: admission.Update, Resource: r, Namespace: "a", Name: "x"}, Object: obj, Old: old}
}

// mutated calls a mutating plugin with a request. It fails the test unless the plugin rejects the request with
// the message refusal or, if refusal is "", admits it. validated does the same for validating plugins.
func mutated(t *testing.T, plugin admission.Mutator, a *admission.Attributes, refusal string) {
	t.Helper()
	wantError(t, plugin.Mutate(t.Context(), a), refusal)
}

func validated(t *testing.T, plugin admission.Validator, a *admission.Attributes, refusal string) {
	t.Helper()
	wantError(t, plugin.Validate(t.Context(), a), refusal)
}

// wantError fails the test unless err has the status 403 and the message refusal, or is nil if refusal is "".
func wantError(t *testing.T, err error, refusal string) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Errorf("rejected: %v", err)
	case refusal != "" && (err == nil || err.Error() != refusal || !apierrors.IsForbidden(err)):
		t.Errorf("error %v\nwant  403 %s", err, refusal)
	}
}

// podNamed returns a pod with one container.
func podNamed(name string, change ...func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for _, f := range change {
		f(&pod.Spec)
	}
	return pod
}

func ptr[T any](v T) *T { return &v }
