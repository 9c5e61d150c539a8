package controlplane

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/storage"
)

// definitionsResource is the resource of CustomResourceDefinitions.
var definitionsResource = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// openCustom creates the source of custom resources.
func (i *instance) openCustom() error {
	definitions, err := i.uncached(definitionsResource)
	if err != nil {
		return err
	}
	i.custom, err = custom.New(custom.Config{
		Definitions: definitions,
		Storage:     i.openNamespaced,
		PathShared:  i.rows.StoresPath,
		Shared:      i.env.Shared,
		Changed: func(versions []schema.GroupVersion) {
			describeCustom(i.lifetime, i.documents, i.static, i.custom, versions)
			i.aggregated.LocalChanged(versions)
			if i.peers != nil {
				i.peers.Changed(versions)
			}
			i.cluster.VersionsChanged()
		},
		Removed:  i.forget,
		Lifetime: i.lifetime, Services: i.services, Networks: i.networks(), Conversions: i.env.Metrics.Conversions, Rules: i.env.Metrics.Rules, Reflectors: i.env.Metrics.Reflectors, Logger: i.env.Logger,
	})
	return err
}

// forget drops the metrics of a deleted custom resource, unless another control plane has one with
// this name.
func (i *instance) forget(resource schema.GroupResource) {
	if i.env.Defined != nil && i.env.Defined(resource) {
		return
	}
	i.env.Requests.Forget(resource)
	i.env.Feed.Forget(resource)
	i.env.Metrics.Storage.Forget(resource)
}

// uncached returns the storage of a built-in resource without its watch cache, for
// the server itself to follow.
func (i *instance) uncached(resource schema.GroupResource) (storage.Interface, error) {
	spec := i.rows.Spec(resource)
	spec.Uncached, spec.Observer = true, nil
	return i.factory.Open(spec)
}

// describeCustom updates the OpenAPI documents of custom group versions that
// changed; built-in ones do not. ctx bounds reading definitions for a document,
// which requests share: it is the lifetime of the control plane.
func describeCustom(ctx context.Context, documents *openapi.Documents, static *route.Static, source *custom.Source, versions []schema.GroupVersion) {
	for _, gv := range versions {
		if isStatic(static, gv) {
			continue
		}
		if !source.Serves(gv) {
			documents.Remove(gv)
			continue
		}
		documents.Set(openapi.Part{
			GroupVersion: gv, Custom: true,
			Describe: func() []openapi.Resource { return customResources(source, gv) },
			Digest:   func() string { return source.Digest(gv) },
			Schemas: func(v2 bool) (map[string]openapi.Schema, error) {
				return source.Schemas(ctx, gv, v2)
			},
		})
	}
}

func isStatic(static *route.Static, gv schema.GroupVersion) bool {
	group, _ := static.Group(gv.Group)
	for _, v := range group.Versions {
		if v.GroupVersion == gv {
			return true
		}
	}
	return false
}

func customResources(source *custom.Source, gv schema.GroupVersion) []openapi.Resource {
	var resources []openapi.Resource
	group, _ := source.Group(gv.Group)
	for _, v := range group.Versions {
		if v.GroupVersion != gv {
			continue
		}
		for _, r := range v.Resources {
			resources = append(resources, openAPIResource(v, r))
		}
	}
	return resources
}
