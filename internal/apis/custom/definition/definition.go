// Package definition implements the defaults, the strategy and the validation of
// CustomResourceDefinitions. Package custom serves the custom resources.
//
// Paths and messages of errors are the same as in kube-apiserver. kube-apiserver validates the internal
// version, which has the common fields of all versions at the top of the spec (spec.validation,
// spec.subresources and so on), so clients receive the paths of that version.
package definition

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CleanupFinalizer is the finalizer that the server removes from a definition after it has deleted the objects
// of the definition.
const CleanupFinalizer = apiextensionsv1.CustomResourceCleanupFinalizer

// Default sets the defaults of a definition in v1. It modifies crd in place.
func Default(crd *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	if c := crd.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil && c.Webhook.ClientConfig.Service != nil {
		apiextensionsv1.SetDefaults_ServiceReference(c.Webhook.ClientConfig.Service)
	}
}

// Prepare adds the storage version to status.storedVersions of a new definition. The registry strategy calls it
// before a creation.
func Prepare(crd *apiextensionsv1.CustomResourceDefinition) {
	addStoredVersion(crd)
}

// PrepareUpdate adds the storage version to status.storedVersions of a changed definition. The registry
// strategy calls it before an update.
func PrepareUpdate(crd, _ *apiextensionsv1.CustomResourceDefinition) {
	addStoredVersion(crd)
}

// addStoredVersion adds the storage version to status.storedVersions, without modifying the existing slice.
func addStoredVersion(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if !version.Storage {
			continue
		}
		if !slices.Contains(crd.Status.StoredVersions, version.Name) {
			crd.Status.StoredVersions = append(slices.Clip(crd.Status.StoredVersions), version.Name)
		}
		return // validation rejects a second storage version
	}
}

// Internal converts a definition to the internal version. The result shares memory with crd; neither may be
// modified afterwards. Internal returns an error if the conversion fails.
func Internal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	// Fields that the conversion moves to the top of the spec are copied.
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil); err != nil {
		return nil, fmt.Errorf("convert definition %s: %w", crd.Name, err)
	}
	return out, nil
}

// maxErrors is the approximate maximum number of errors that each step of the validation reports. A schema of a
// few MB can have a million errors.
const maxErrors = 1000

// Validate returns the errors of a new definition, with kube-apiserver's paths and messages. The number of
// errors in schemas is limited. It does not modify crd. When ctx ends, it stops compiling rules and returns an error.
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

// ValidateUpdate returns the errors of a definition that replaces old. It does not return errors of
// unchanged parts that older servers accepted. It modifies neither definition.
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

// ValidateStatusUpdate returns the errors of an update of the status subresource.
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

// PrepareDeletion sets the Terminating condition and the CleanupFinalizer of a definition that has just
// received a deletion timestamp, because its objects must be deleted first. It modifies crd in place.
func PrepareDeletion(crd *apiextensionsv1.CustomResourceDefinition) {
	// Like kube-apiserver, set no grace period and do not increment the generation.
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

// DeletionBlocked reports whether a deletion must first set the deletion timestamp, instead of
// removing the definition.
func DeletionBlocked(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.DeletionTimestamp == nil
}

// InternalSchema converts a schema to the internal version, which package schema compiles. The result shares
// memory with props; neither may be modified afterwards. InternalSchema returns an error if the conversion
// fails.
func InternalSchema(props *apiextensionsv1.JSONSchemaProps) (*apiextensions.JSONSchemaProps, error) {
	out := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, out, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	return out, nil
}
