// Package apiextensions declares the resource of apiextensions.k8s.io. Package definition contains
// the rules for definitions, and package custom serves the defined resources.
package apiextensions

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
)

// V1 returns the group version apiextensions.k8s.io/v1.
func V1() builtin.Group {
	v1beta1 := apiextensionsv1beta1.SchemeGroupVersion
	stored := builtin.ConvertedVersion(v1beta1.WithKind("CustomResourceDefinition"),
		definition.DefaultV1beta1, definition.FromV1beta1, definition.ToV1beta1)
	return builtin.Group{GroupVersion: apiextensionsv1.SchemeGroupVersion, Resources: []builtin.Entry{
		// kube-apiserver stores definitions as JSON of v1beta1, and discovery contains the hash of that
		// version (jfWCUB31mvA=). Mainstay uses the same form if the storage is shared with kube-apiserver.
		// Otherwise, it stores JSON of v1, which can be sent to clients unchanged and decoded in part.
		builtin.Resource(builtin.Row[*apiextensionsv1.CustomResourceDefinition]{
			Names: builtin.Names{
				Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", ShortNames: []string{"crd", "crds"},
				Categories: []string{"api-extensions"},
			},
			Storage: builtin.Storage{
				Path: "apiextensions.k8s.io/customresourcedefinitions", HashedVersion: v1beta1, JSON: true,
				ReadableVersions: []*codec.Version{stored}, SharedVersion: stored,
			},
			WritePolicy: builtin.WritePolicy{Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true, ExpensiveValidation: true},
			Strategy: builtin.Strategy[*apiextensionsv1.CustomResourceDefinition]{
				Default:          definition.Default,
				PrepareForCreate: func(_ *builtin.Operation, crd *apiextensionsv1.CustomResourceDefinition) { definition.Prepare(crd) },
				PrepareForUpdate: func(_ *builtin.Operation, crd, old *apiextensionsv1.CustomResourceDefinition) {
					definition.PrepareUpdate(crd, old)
				},
				ValidateExternal: validateStoragePath, Validate: validate,
				Warnings: func(_ *builtin.Operation, crd, _ *apiextensionsv1.CustomResourceDefinition) []string {
					return definition.Warnings(crd)
				},
			},
			Status:   &builtin.Status[*apiextensionsv1.CustomResourceDefinition]{Validate: validateStatus},
			Deletion: builtin.Deletion[*apiextensionsv1.CustomResourceDefinition]{Blocked: definition.DeletionBlocked, Prepare: definition.PrepareDeletion},
			Columns:  columns(),
		}),
	}}
}

// validateStoragePath rejects a new definition if its objects would be stored under the path of a built-in
// resource. Otherwise, its author could write built-in objects without validation.
func validateStoragePath(op *builtin.Operation, f validation.Field, crd, old *apiextensionsv1.CustomResourceDefinition) {
	if old == nil && op.Env.StoresPath(crd.Spec.Group+"/"+crd.Spec.Names.Plural) {
		f.Child("metadata").Child("name").Forbidden("the server stores objects of a built-in resource under this name")
	}
}

func validate(f validation.Field, crd, old *apiextensionsv1.CustomResourceDefinition) {
	if old == nil {
		f.Add(definition.Validate(f.Context(), crd)...)
	} else {
		f.Add(definition.ValidateUpdate(f.Context(), crd, old)...)
	}
}

func validateStatus(f validation.Field, crd, old *apiextensionsv1.CustomResourceDefinition) {
	f.Add(definition.ValidateStatusUpdate(crd, old)...)
}
