package core

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/registry"
	"mainstay.dev/mainstay/rest"
)

// namespaces are held by finalizers of two kinds: those of all objects, and
// those of the spec, which stand for contents that are still there.
func namespaces() builtin.Row[corev1.Namespace] {
	return builtin.Row[corev1.Namespace]{
		Name: "namespaces", Kind: "Namespace", ShortNames: []string{"ns"},
		Status: true, ReturnDeleted: true, Without: []string{"deletecollection"},
		ValidateName: validation.NameIsDNSLabel,
		Default:      defaultNamespace, Prepare: prepareNamespace, Validate: validateNamespace,
		PrepareUpdate: prepareNamespaceUpdate, ValidateStatus: validateNamespaceStatus,
		Held:             func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 },
		OnMark:           markNamespace,
		SelectableFields: []string{"status.phase"},
		FieldLabel:       fieldLabel("metadata.name", "status.phase"),
		Fields: func(ns *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(ns.Status.Phase)}
		},
		Columns:      namespaceColumns(),
		Subresources: []builtin.Subresource{namespaceFinalize()},
	}
}

func defaultNamespace(ns *corev1.Namespace) {
	labelNamespace(ns)
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

// labelNamespace labels every namespace with its own name, so that selectors
// can choose it.
func labelNamespace(ns *corev1.Namespace) {
	if ns.Name == "" {
		return // its name is still to be generated
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func prepareNamespace(_ context.Context, ns *corev1.Namespace) {
	labelNamespace(ns)
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

func prepareNamespaceUpdate(_ context.Context, ns, old *corev1.Namespace) {
	ns.Spec.Finalizers = old.Spec.Finalizers
}

// markNamespace says what everybody sees of a deletion. There is no period of
// grace to tell of.
func markNamespace(ns *corev1.Namespace) {
	ns.DeletionGracePeriodSeconds = nil
	ns.Status.Phase = corev1.NamespaceTerminating
}

func validateNamespace(_ context.Context, ns *corev1.Namespace) field.ErrorList {
	path := field.NewPath("spec", "finalizers")
	var errs field.ErrorList
	for _, finalizer := range ns.Spec.Finalizers {
		errs = append(errs, validateFinalizer(finalizer, path)...) // as kube-apiserver: without the index
	}
	return errs
}

func validateFinalizer(finalizer corev1.FinalizerName, path *field.Path) field.ErrorList {
	errs := validation.ValidateFinalizerName(string(finalizer), path)
	switch finalizer {
	case corev1.FinalizerKubernetes, metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return errs
	}
	if !strings.Contains(string(finalizer), "/") {
		errs = append(errs, field.Invalid(path, string(finalizer), "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}

// validateNamespaceStatus ties the phase to the deletion.
func validateNamespaceStatus(_ context.Context, ns, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase") // as kube-apiserver spells it
	switch {
	case ns.DeletionTimestamp == nil && ns.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case ns.DeletionTimestamp != nil && ns.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}

// namespaceFinalize writes spec.finalizers, and nothing else. A namespace that
// is being deleted goes with the last of them.
func namespaceFinalize() builtin.Subresource {
	return builtin.Subresource{Name: "finalize", ResetFields: []string{"status"}, Storage: func(_ *builtin.Env, store *registry.Store) rest.Storage {
		strategy := &registry.Strategy{
			Held: store.Strategy.Held,
			PrepareForUpdate: func(_ context.Context, obj, old codec.Object) {
				obj.(*corev1.Namespace).Status = old.(*corev1.Namespace).Status
			},
			ValidateUpdate: func(_ context.Context, obj, _ codec.Object) field.ErrorList {
				var errs field.ErrorList
				for i, finalizer := range obj.(*corev1.Namespace).Spec.Finalizers {
					errs = append(errs, validateFinalizer(finalizer, field.NewPath("spec", "finalizers").Index(i))...)
				}
				return errs
			},
		}
		return finalizer{&registry.Part{Store: store, Strategy: strategy}}
	}}
}

// finalizer can update alone.
type finalizer struct{ part *registry.Part }

// Update implements rest.Updater.
func (f finalizer) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	return f.part.Update(ctx, name, update, options)
}

func namespaceColumns() *builtin.Columns[corev1.Namespace] {
	return &builtin.Columns[corev1.Namespace]{
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
