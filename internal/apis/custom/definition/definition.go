// Package definition implements the defaults, the strategy and the validation of
// CustomResourceDefinitions. Package custom serves the custom resources.
//
// Paths and messages of errors are kube-apiserver's. It validates the internal version, which has
// the common fields of all versions at the top of the spec (spec.validation, spec.subresources and
// so on), so that clients receive these paths.
package definition

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CleanupFinalizer is the finalizer that the server removes once the objects of a
// definition are deleted.
const CleanupFinalizer = apiextensionsv1.CustomResourceCleanupFinalizer

// Default sets the defaults of a definition.
func Default(crd *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	if c := crd.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil && c.Webhook.ClientConfig.Service != nil {
		apiextensionsv1.SetDefaults_ServiceReference(c.Webhook.ClientConfig.Service)
	}
}

// Prepare adds the storage version to status.storedVersions of a new definition.
func Prepare(crd *apiextensionsv1.CustomResourceDefinition) {
	addStoredVersion(crd)
}

// PrepareUpdate adds the storage version to status.storedVersions.
func PrepareUpdate(crd, _ *apiextensionsv1.CustomResourceDefinition) {
	addStoredVersion(crd)
}

// addStoredVersion adds the storage version to status.storedVersions.
func addStoredVersion(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if !version.Storage {
			continue
		}
		if !slices.Contains(crd.Status.StoredVersions, version.Name) {
			crd.Status.StoredVersions = append(slices.Clip(crd.Status.StoredVersions), version.Name)
		}
		return // a second one is a fault
	}
}

// Internal returns a definition in the internal version. It shares memory with its
// argument: neither may be changed.
func Internal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	// The fields moved to the top share no memory with in.
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil); err != nil {
		return nil, fmt.Errorf("convert definition %s: %w", crd.Name, err)
	}
	return out, nil
}

// Validate returns the errors of a new definition.
func Validate(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	internal, err := Internal(crd)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}
	}
	v := validator{ctx: ctx, crd: internal}
	v.name()
	v.all()
	v.approval(nil)
	v.preserveUnknown(nil)
	return v.errs
}

// ValidateUpdate returns the errors of a definition that replaces old.
func ValidateUpdate(ctx context.Context, crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	internal, err := Internal(crd)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}
	}
	v := validator{ctx: ctx, crd: internal, old: old}
	v.metadata(&crd.ObjectMeta, &old.ObjectMeta)
	v.all()
	v.approval(old)
	v.preserveUnknown(old)
	return v.errs
}

// ValidateStatusUpdate returns the errors of a new status.
func ValidateStatusUpdate(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	internal, err := Internal(crd)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("status"), "", err.Error())}
	}
	v := validator{crd: internal}
	v.metadata(&crd.ObjectMeta, &old.ObjectMeta)
	v.names(&internal.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))
	return v.errs
}

// OnMark sets the condition Terminating of a definition that is being deleted: its
// objects are deleted first.
func OnMark(crd *apiextensionsv1.CustomResourceDefinition) {
	// As kube-apiserver: no grace period, and no new generation.
	crd.DeletionGracePeriodSeconds = nil
	if FindCondition(crd, apiextensionsv1.Terminating) == nil {
		crd.Generation--
	}
	if !slices.Contains(crd.Finalizers, CleanupFinalizer) {
		crd.Finalizers = append(crd.Finalizers, CleanupFinalizer)
	}
	SetCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	}, crd.DeletionTimestamp.Time)
}

// Held reports whether deletion must set the deletion timestamp first.
func Held(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.DeletionTimestamp == nil }

// InternalSchema returns a schema in the internal version, which package schema compiles.
// It shares memory with its argument: neither may be changed.
func InternalSchema(props *apiextensionsv1.JSONSchemaProps) (*apiextensions.JSONSchemaProps, error) {
	out := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, out, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	return out, nil
}
