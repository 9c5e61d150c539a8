package core_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newNamespace(name string, finalizers ...corev1.FinalizerName) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NamespaceSpec{Finalizers: finalizers}}
}

func TestNamespaceOnCreate(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	sent := newNamespace("n", "example.com/custom")
	sent.Status.Phase = corev1.NamespaceTerminating
	ns := a.create("v1 namespaces", sent).(*corev1.Namespace)
	if ns.Status.Phase != corev1.NamespaceActive || ns.Labels[corev1.LabelMetadataName] != "n" || ns.Generation != 0 {
		t.Errorf("namespace is %+v", ns)
	}
	if diff := cmp.Diff([]corev1.FinalizerName{"example.com/custom", corev1.FinalizerKubernetes}, ns.Spec.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	generated := a.create("v1 namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"}})
	if label := generated.GetLabels()[corev1.LabelMetadataName]; label != generated.GetName() {
		t.Errorf("label of %s is %q", generated.GetName(), label)
	}
	_, err := a.tryCreate("v1 namespaces", newNamespace("m", "plain"))
	wantMessage(t, err, `Namespace "m" is invalid: spec.finalizers: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified`)
	if _, err := a.tryCreate("v1 namespaces", newNamespace("with.dot")); !apierrors.IsInvalid(err) {
		t.Errorf("name with a dot: %v", err)
	}
}

func TestNamespaceUpdate(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("v1 namespaces", newNamespace("n"))
	ns := mustUpdate(a, "v1 namespaces", in("", "n"), func(ns *corev1.Namespace) {
		ns.Spec.Finalizers, ns.Labels = nil, nil
		ns.Status.Phase = corev1.NamespaceTerminating
	})
	if len(ns.Spec.Finalizers) != 1 || ns.Status.Phase != corev1.NamespaceActive || ns.Labels[corev1.LabelMetadataName] != "n" {
		t.Errorf("namespace is %+v", ns)
	}
	_, err := update(a, "v1 namespaces/status", in("", "n"), func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating })
	wantMessage(t, err, "Namespace \"n\" is invalid: status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty")
}

func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	sent := newNamespace("n")
	sent.Finalizers = []string{"example.com/hold"}
	a.create("v1 namespaces", sent)
	obj, gone := a.delete("v1 namespaces", in("", "n"), metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(30))})
	ns := obj.(*corev1.Namespace)
	if gone || ns.Status.Phase != corev1.NamespaceTerminating || ns.DeletionTimestamp == nil || ns.DeletionGracePeriodSeconds != nil {
		t.Fatalf("gone is %t, namespace %+v", gone, ns)
	}
	if again, gone := a.delete("v1 namespaces", in("", "n"), metav1.DeleteOptions{}); gone || again.GetDeletionGracePeriodSeconds() != nil {
		t.Errorf("deleted again: gone is %t, namespace %+v", gone, again)
	}
	_, err := update(a, "v1 namespaces/status", in("", "n"), func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceActive })
	wantMessage(t, err, "Namespace \"n\" is invalid: status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty")

	mustUpdate(a, "v1 namespaces", in("", "n"), func(ns *corev1.Namespace) { ns.Finalizers = nil })
	a.get("v1 namespaces", in("", "n")) // the namespace still exists because of spec.finalizers

	_, err = update(a, "v1 namespaces/finalize", in("", "n"), func(ns *corev1.Namespace) { ns.Spec.Finalizers = []corev1.FinalizerName{"plain"} })
	wantMessage(t, err, `Namespace "n" is invalid: spec.finalizers[0]: Invalid value: "plain": name is neither a standard finalizer name nor is it fully qualified`)
	ns = mustUpdate(a, "v1 namespaces/finalize", in("", "n"), func(ns *corev1.Namespace) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, "example.com/x")
		ns.Status = corev1.NamespaceStatus{}
	})
	if len(ns.Spec.Finalizers) != 2 || ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("after finalize: %+v", ns)
	}
	last := mustUpdate(a, "v1 namespaces/finalize", in("", "n"), func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil })
	if last.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the deleted namespace: %+v", last)
	}
	if _, err := a.tryGet("v1 namespaces", in("", "n")); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace still exists: %v", err)
	}
}
