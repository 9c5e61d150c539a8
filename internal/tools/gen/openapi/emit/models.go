package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"mainstay.dev/mainstay/internal/tools/gen/openapi/definitions"
)

// models contains the schemas of all built-in types by model name (io.k8s.api.core.v1.Pod), for
// both versions of OpenAPI.
type models struct {
	v2 map[string]spec.Schema
	v3 map[string]*spec.Schema
	// kinds contains the kinds of each model. Only models of the meta package have more than one kind, because
	// their kinds belong to every group version.
	kinds map[string][]schema.GroupVersionKind
	// uses contains the names of the models that the schema of each model refers to.
	uses map[string][]string
}

// names returns the names of all models in ascending order.
func (m *models) names() []string {
	names := make([]string, 0, len(m.v3))
	for name := range m.v3 {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func buildModels() (*models, error) {
	kinds, err := kindsByModel()
	if err != nil {
		return nil, err
	}
	m := &models{kinds: kinds, uses: map[string][]string{}}
	definitionName := func(name string) (string, spec.Extensions) {
		return name, kindExtension(kinds[name])
	}
	var names []string
	for name, definition := range definitions.GetOpenAPIDefinitions(noReference) {
		names = append(names, name)
		m.uses[name] = slices.Clone(definition.Dependencies)
		slices.Sort(m.uses[name])
	}
	if len(names) == 0 {
		return nil, errors.New("no definitions: run go generate ./openapi, which supplies them")
	}
	slices.Sort(names)
	swagger, err := builder.BuildOpenAPIDefinitionsForResources(&common.Config{
		Info:              &spec.Info{},
		GetDefinitions:    definitions.GetOpenAPIDefinitions,
		GetDefinitionName: definitionName,
	}, names...)
	if err != nil {
		return nil, fmt.Errorf("build v2 definitions: %w", err)
	}
	// As in kube-apiserver, the v2 document contains no defaults.
	m.v2 = handler.PruneDefaults(swagger.Definitions)
	m.v3, err = builder3.BuildOpenAPIDefinitionsForResources(&common.OpenAPIV3Config{
		Info:              &spec.Info{},
		GetDefinitions:    definitions.GetOpenAPIDefinitions,
		GetDefinitionName: definitionName,
	}, names...)
	if err != nil {
		return nil, fmt.Errorf("build v3 definitions: %w", err)
	}
	return m, nil
}

func noReference(string) spec.Ref { return spec.Ref{} }

// kindsByModel returns the kinds of each model. The registered group versions are those of kube-apiserver,
// because the kinds of the meta package are listed in all of them.
func kindsByModel() (map[string][]schema.GroupVersionKind, error) {
	scheme := runtime.NewScheme()
	add := runtime.NewSchemeBuilder(
		kubescheme.AddToScheme,
		admissionv1.AddToScheme,
		admissionv1beta1.AddToScheme,
		imagepolicyv1alpha1.AddToScheme,
		apiextensionsv1.AddToScheme,
		apiextensionsv1beta1.AddToScheme,
		apiregistrationv1.AddToScheme,
		apiregistrationv1beta1.AddToScheme,
	)
	if err := add.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register types: %w", err)
	}
	kinds := map[string][]schema.GroupVersionKind{}
	for gvk := range scheme.AllKnownTypes() {
		name, err := scheme.ToOpenAPIDefinitionName(gvk)
		if err != nil {
			return nil, fmt.Errorf("name model of %v: %w", gvk, err)
		}
		kinds[name] = append(kinds[name], gvk)
	}
	for _, list := range kinds {
		slices.SortFunc(list, func(a, b schema.GroupVersionKind) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
		})
	}
	return kinds, nil
}

// kindExtension returns the OpenAPI extension that lists the kinds of a model, or nil if the model has no
// kinds.
func kindExtension(kinds []schema.GroupVersionKind) spec.Extensions {
	if len(kinds) == 0 {
		return nil
	}
	list := make([]any, len(kinds))
	for i, gvk := range kinds {
		list[i] = map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
	}
	return spec.Extensions{"x-kubernetes-group-version-kind": list}
}
