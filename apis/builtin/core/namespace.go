package core

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/apis/builtin"
)

// namespaces are held by finalizers of two kinds: those of all objects, and
// those of the spec, which stand for contents that are still there.
func namespaces() builtin.Row[corev1.Namespace] {
	return builtin.Row[corev1.Namespace]{
		Name: "namespaces", Kind: "Namespace", ShortNames: []string{"ns"},
		Status: true, ReturnDeleted: true, Without: []string{"deletecollection"},
		ValidateName: validation.NameIsDNSLabel,
		Default:      defaultNamespace, Prepare: prepareNamespace, PrepareUpdate: prepareNamespaceUpdate,
		Held:             func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 },
		OnMark:           markNamespace,
		SelectableFields: []string{"status.phase"},
		FieldLabel:       fieldLabel("metadata.name", "status.phase"),
		Fields: func(ns *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(ns.Status.Phase)}
		},
		Columns: namespaceColumns(),
	}
}

// defaultNamespace labels every namespace with its own name, so that selectors
// can choose it.
func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name == "" {
		return // its name is still to be generated
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func prepareNamespace(_ context.Context, ns *corev1.Namespace) {
	defaultNamespace(ns)
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
