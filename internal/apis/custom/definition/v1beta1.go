package definition

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)

// FromV1beta1 converts a definition from v1beta1 to v1. kube-apiserver stores definitions as v1beta1, although
// it no longer serves this version. The defaults of crd must be set. The result may share memory with crd.
// FromV1beta1 returns an error if the conversion fails.
func FromV1beta1(crd *apiextensionsv1beta1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	internal, out := &apiextensions.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		return nil, fmt.Errorf("read definition %s of v1beta1: %w", crd.Name, err)
	}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(internal, out, nil); err != nil {
		return nil, fmt.Errorf("read definition %s of v1beta1: %w", crd.Name, err)
	}
	return out, nil
}

// ToV1beta1 converts a definition from v1 to v1beta1, for storage. The result may share memory with crd.
// ToV1beta1 returns an error if the conversion fails.
func ToV1beta1(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1beta1.CustomResourceDefinition, error) {
	internal, err := Internal(crd)
	if err != nil {
		return nil, err
	}
	out := &apiextensionsv1beta1.CustomResourceDefinition{}
	if err := apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(internal, out, nil); err != nil {
		return nil, fmt.Errorf("write definition %s as v1beta1: %w", crd.Name, err)
	}
	return out, nil
}

// DefaultV1beta1 sets the defaults of a stored definition in v1beta1. It modifies crd in place.
func DefaultV1beta1(crd *apiextensionsv1beta1.CustomResourceDefinition) {
	apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(crd)
}
