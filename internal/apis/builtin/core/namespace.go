package core

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// namespaces declares the namespaces resource. Namespaces have two kinds of finalizers: metadata.finalizers,
// like all objects, and spec.finalizers, which represent the namespace's remaining contents.
func namespaces() builtin.Row[*corev1.Namespace] {
	return builtin.Row[*corev1.Namespace]{
		Names: builtin.Names{Plural: "namespaces", Kind: "Namespace", ShortNames: []string{"ns"}},
		WritePolicy: builtin.WritePolicy{
			ReturnDeletedObject: true, DisabledVerbs: []string{"deletecollection"}, ValidateName: apivalidation.NameIsDNSLabel,
		},
		Strategy: builtin.Strategy[*corev1.Namespace]{
			Default:          defaultNamespace,
			PrepareForCreate: prepareNamespace, PrepareForUpdate: prepareNamespaceUpdate,
			Validate: validateNamespace,
		},
		Status: &builtin.Status[*corev1.Namespace]{Validate: validateNamespaceStatus},
		Deletion: builtin.Deletion[*corev1.Namespace]{
			Blocked: func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 }, Prepare: markNamespace,
		},
		FieldSelectors: builtin.FieldSelectors[*corev1.Namespace]{
			Keys: []string{"status.phase"}, ConvertLabel: fieldLabel("metadata.name", "status.phase"),
			Values: func(ns *corev1.Namespace) fields.Set {
				return fields.Set{"status.phase": string(ns.Status.Phase)}
			},
		},
		Columns: namespaceColumns(), Subresources: []builtin.Subresource{namespaceFinalize()},
	}
}

func defaultNamespace(ns *corev1.Namespace) {
	labelNamespace(ns)
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

// labelNamespace labels a namespace with its name, so that label selectors can select the namespace by name.
func labelNamespace(ns *corev1.Namespace) {
	if ns.Name == "" {
		return // the name is generated later
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func prepareNamespace(_ *builtin.Operation, ns *corev1.Namespace) {
	labelNamespace(ns)
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func prepareNamespaceUpdate(_ *builtin.Operation, ns, old *corev1.Namespace) {
	ns.Spec.Finalizers = old.Spec.Finalizers
}

// markNamespace sets the phase of a namespace that is being deleted. It clears the grace period, because
// namespaces have none.
func markNamespace(ns *corev1.Namespace) {
	ns.DeletionGracePeriodSeconds = nil
	ns.Status.Phase = corev1.NamespaceTerminating
}

func validateNamespace(f validation.Field, ns, old *corev1.Namespace) {
	if old != nil {
		return // only /finalize changes spec.finalizers
	}
	for _, finalizer := range ns.Spec.Finalizers {
		validateFinalizer(f.Child("spec").Child("finalizers"), finalizer) // as in kube-apiserver, the path has no index
	}
}

func validateFinalizer(f validation.Field, finalizer corev1.FinalizerName) {
	f.Add(apivalidation.ValidateFinalizerName(string(finalizer), f.Path())...)
	validateFinalizerDomain(f, string(finalizer))
}

// validateFinalizerDomain requires that a finalizer contains a domain, unless it is defined by Kubernetes.
func validateFinalizerDomain(f validation.Field, finalizer string) {
	switch finalizer {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return
	}
	if !strings.Contains(finalizer, "/") {
		f.Invalid(finalizer, "name is neither a standard finalizer name nor is it fully qualified")
	}
}

// validateNamespaceStatus requires that the phase is Terminating if and only if the namespace is
// being deleted.
func validateNamespaceStatus(f validation.Field, ns, _ *corev1.Namespace) {
	phase := f.Child("status").Child("Phase") // the capital letter is the same as in kube-apiserver
	switch {
	case ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceActive:
		phase.Invalid(ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")
	case ns.DeletionTimestamp != nil && ns.Status.Phase != corev1.NamespaceTerminating:
		phase.Invalid(ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
}

// namespaceFinalize declares the /finalize subresource, which writes only spec.finalizers. If a namespace is
// being deleted, removing its last finalizer deletes it.
func namespaceFinalize() builtin.Subresource {
	return builtin.NewObjectSubresource(builtin.ObjectSubresource[*corev1.Namespace]{
		Name: "finalize", WriteOnly: true, ResetFields: []string{"status"},
		PrepareForUpdate: func(_ *builtin.Operation, ns, old *corev1.Namespace) { ns.Status = old.Status },
		Validate: func(f validation.Field, ns, _ *corev1.Namespace) {
			finalizers := f.Child("spec").Child("finalizers")
			for i, finalizer := range ns.Spec.Finalizers {
				validateFinalizer(finalizers.Index(i), finalizer)
			}
		},
	})
}

func namespaceColumns() *builtin.Columns[*corev1.Namespace] {
	return &builtin.Columns[*corev1.Namespace]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Status", "string", "The status of the namespace"),
			builtin.AgeColumn(),
		},
		Cells: func(ns *corev1.Namespace, now time.Time) []any {
			return []any{ns.Name, string(ns.Status.Phase), builtin.Age(ns.CreationTimestamp, now)}
		},
	}
}
