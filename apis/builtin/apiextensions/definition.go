package apiextensions

import (
	"context"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// prepare notes the version that objects are stored in from the start.
func prepare(_ context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	noteStoredVersion(crd)
}

func prepareUpdate(_ context.Context, crd, _ *apiextensionsv1.CustomResourceDefinition) {
	noteStoredVersion(crd)
}

// noteStoredVersion remembers every version that objects may be stored in. The
// status is the definition's own copy.
func noteStoredVersion(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if version.Storage && !slices.Contains(crd.Status.StoredVersions, version.Name) {
			crd.Status.StoredVersions = append(slices.Clip(crd.Status.StoredVersions), version.Name)
		}
	}
}

// validateName ties the name to what is defined, so that no two definitions
// can be of the same resource.
func validateName(_ context.Context, crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	if crd.Name == "" || crd.Name == crd.Spec.Names.Plural+"."+crd.Spec.Group {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), crd.Name, `must be spec.names.plural+"."+spec.group`)}
}
