package endpoints

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// Warnings for clients, with the messages of kube-apiserver.
const (
	duplicateOwnersWarning = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, " +
		"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	duplicateOwnersAfterAdmissionWarning = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, " +
		"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	invalidManagedFieldsWarning = ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: %v"
)

// request returns the admission request for an operation on the named object.
func (o *operation) request(ctx context.Context, op admission.Operation, name string, options runtime.Object, dryRun []string) admission.Request {
	namespace := o.info.Namespace
	if op == admission.Create && namespace == "" && o.resource.GroupResource() == (schema.GroupResource{Resource: "namespaces"}) {
		namespace = name // as in kube-apiserver
	}
	return admission.Request{
		Operation: op, Options: options, Resource: o.resource, Namespace: namespace, Name: name,
		DryRun: len(dryRun) > 0, User: request.UserFrom(ctx), EquivalentsOf: o.api.config.Equivalents, Explanation: o.explanation,
		Lookups: &o.lookups, Metrics: o.api.config.AdmissionMetrics,
	}
}

// mutate runs mutating admission on an object and checks the result.
func (o *operation) mutate(ctx context.Context, admissionRequest *admission.Request, obj, old codec.Object) (codec.Object, error) {
	chain := o.api.config.Admission
	if !chain.Mutates(admissionRequest.Operation) {
		return obj, nil
	}
	before := fieldsOf(obj)
	a := &admission.Attributes{Request: *admissionRequest, Object: obj, Old: old}
	if err := chain.Mutate(ctx, a); err != nil {
		return nil, err
	}
	o.mutators = a.Mutators()
	admitted, ok := a.Object.(codec.Object)
	if !ok {
		return nil, fmt.Errorf("admission of %s left a %T", o.resource.FullName(), a.Object)
	}
	if !before.sameEntries(fieldsOf(admitted)) {
		before.checkFields(ctx, admitted)
	}
	dedupOwnerReferences(ctx, admitted, duplicateOwnersAfterAdmissionWarning)
	return admitted, o.checkIdentity(admitted, old == nil)
}

// checkIdentity rejects an object if mutating admission has changed its namespace or, if the path contains
// the name of a new object, its name. Validation rejects a changed name of an existing object.
func (o *operation) checkIdentity(admitted codec.Object, isNew bool) error {
	if err := o.setNamespace(admitted); err != nil {
		return err
	}
	if isNew && o.info.NameInPath && o.resource.Subresource == "" {
		return o.checkName(admitted)
	}
	return nil
}

// warnAdmissionChanges adds a warning if err rejects an invalid object that admission changed. The warning
// names the webhooks and policies that changed the object. The Status remains the same as in
// kube-apiserver, because clients match on its message and print its causes.
func (o *operation) warnAdmissionChanges(ctx context.Context, err error) {
	if len(o.mutators) > 0 && apierrors.IsInvalid(err) {
		request.AddWarning(ctx, "the invalid object was changed in admission by "+strings.Join(o.mutators, ", "))
	}
}

// withUniqueOwners returns an UpdateFunc that removes duplicate owner references from the result of change.
// As in kube-apiserver, this happens once, after admission, so the warning mentions admission even if the
// patch contains the duplicates.
func (o *operation) withUniqueOwners(change rest.UpdateFunc) rest.UpdateFunc {
	return func(ctx context.Context, current codec.Object) (codec.Object, error) {
		obj, err := change(ctx, current)
		if err == nil {
			dedupOwnerReferences(ctx, obj, duplicateOwnersAfterAdmissionWarning)
		}
		return obj, err
	}
}

// storedFields contains the managed fields of an object: entries for a typed object, and document for an
// unstructured object. The managed fields of an unstructured object are not decoded, because this would
// copy them.
type storedFields struct {
	entries  []metav1.ManagedFieldsEntry
	document []any
}

func fieldsOf(obj codec.Object) storedFields {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		metadata, _ := u.Object["metadata"].(map[string]any)
		document, _ := metadata["managedFields"].([]any)
		return storedFields{document: document}
	}
	return storedFields{entries: obj.GetManagedFields()}
}

func (f storedFields) len() int { return len(f.entries) + len(f.document) }

// sameEntries reports whether f and g share their entries in memory. A plugin that changes managed fields
// replaces the slice; it does not modify entries.
func (f storedFields) sameEntries(g storedFields) bool {
	return len(f.entries) == len(g.entries) && len(f.document) == len(g.document) &&
		(len(f.entries) == 0 || &f.entries[0] == &g.entries[0]) && (len(f.document) == 0 || &f.document[0] == &g.document[0])
}

// checkFields restores the managed fields f and adds a warning if the managed fields of the admitted object
// are invalid.
func (f storedFields) checkFields(ctx context.Context, admitted codec.Object) {
	err := managedfields.ValidateManagedFields(admitted.GetManagedFields())
	if err == nil {
		return
	}
	if u, ok := admitted.(*unstructured.Unstructured); ok && f.document != nil {
		_ = unstructured.SetNestedSlice(u.Object, f.document, "metadata", "managedFields") // no error: metadata is a map, because it contains managed fields
	} else {
		admitted.SetManagedFields(f.entries)
	}
	request.AddWarning(ctx, fmt.Sprintf(invalidManagedFieldsWarning, err))
}

// dedupOwnerReferences removes duplicate owner references. It adds the warning if there are any.
func dedupOwnerReferences(ctx context.Context, obj codec.Object, warning string) {
	owners := obj.GetOwnerReferences()
	if len(owners) < 2 {
		return
	}
	var kept []metav1.OwnerReference
	var repeated []string
	seen := map[ownerKey]bool{}
	for _, owner := range owners {
		key := ownerKeyOf(owner)
		if seen[key] {
			repeated = append(repeated, string(owner.UID))
			continue
		}
		seen[key] = true
		kept = append(kept, owner)
	}
	if len(repeated) > 0 {
		obj.SetOwnerReferences(kept)
		request.AddWarning(ctx, fmt.Sprintf(warning, strings.Join(repeated, ", ")))
	}
}

// ownerKey is a comparable form of an owner reference.
type ownerKey struct {
	metav1.OwnerReference
	controller, blocks string
}

func ownerKeyOf(owner metav1.OwnerReference) ownerKey {
	key := ownerKey{owner, formatBool(owner.Controller), formatBool(owner.BlockOwnerDeletion)}
	key.Controller, key.BlockOwnerDeletion = nil, nil
	return key
}

func formatBool(b *bool) string {
	if b == nil {
		return ""
	}
	return fmt.Sprint(*b)
}
