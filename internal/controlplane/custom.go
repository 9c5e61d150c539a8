package controlplane

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/custom"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/storage"
)

// definitionsResource is the resource of CustomResourceDefinitions.
var definitionsResource = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// newCustomResources creates the source of custom resources. listeners are called when the
// resources of custom group versions change.
func newCustomResources(s *settings, builtin *builtinResources, conns *connections, documents *openapi.Documents, listeners *versionListeners) (*custom.Source, error) {
	stored, err := builtin.uncached(definitionsResource)
	if err != nil {
		return nil, err
	}
	definitions := newOwnDefinitions(s, stored, builtin.rows.Spec(definitionsResource).Kind)
	metrics := s.env.Telemetry.Metrics
	source, err := custom.New(custom.Config{
		Definitions: definitions,
		Storage:     builtin.storage.openCharged,
		PathShared:  builtin.rows.StoresPath,
		ReadOnly:    s.readOnly,
		Shared:      s.env.Storage.Shared,
		Deletion:    s.options.Storage.deletion(),
		Changed:     listeners.changed,
		Removed:     func(resource schema.GroupResource) { forgetMetrics(s.env, resource) },
		Lifetime:    s.lifetime, Services: conns.resolver, Networks: conns.networks,
		Schemas:     s.env.Shared.customSchemas(),
		Conversions: metrics.Extensions.Conversions, Rules: metrics.Extensions.Rules, Reflectors: metrics.Storage.Reflectors, Logger: s.env.Telemetry.Logger,
	})
	if err != nil {
		return nil, err
	}
	listeners.add(func(versions []schema.GroupVersion) {
		describeCustom(s.lifetime, documents, builtin.static, source, versions)
	})
	return source, builtin.storage.observers.addWritten(definitionsResource, &storage.Observer{Written: func(record *codec.Record) error {
		if err := source.Observe(record); err != nil {
			return fmt.Errorf("load the definition: %w", err)
		}
		return nil
	}})
}

// forgetMetrics deletes the metrics of a deleted custom resource, unless another control plane
// defines a resource with the same name.
func forgetMetrics(env *Env, resource schema.GroupResource) {
	if defined := env.Telemetry.Defined; defined != nil && defined(resource) {
		return
	}
	env.Telemetry.Requests.DeleteResource(resource)
	env.Storage.Feed.Forget(resource)
	env.Telemetry.Metrics.Storage.Storage.Forget(resource)
}

// describeCustom updates the OpenAPI documents of changed custom group versions. Documents of
// built-in group versions do not change. ctx must be the lifetime of the control plane, because
// several requests for a document can share one read of a definition.
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
