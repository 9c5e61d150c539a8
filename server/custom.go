package server

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/apis/custom"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/openapi"
	"mainstay.dev/mainstay/route"
	"mainstay.dev/mainstay/storage"
)

// openCustom makes the source of the resources that definitions define, and
// loads the definitions that are stored.
func (s *Server) openCustom(env *builtin.Env, static *route.Static, documents *openapi.Documents) (*custom.Source, error) {
	definitions := env.Store(schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"})
	direct, err := storage.New(storage.Config{
		Backend: s.backend, Prefix: s.config.EtcdPrefix, ResourcePrefix: definitionsPath, Kind: definitions.Kind,
		GroupResource: definitions.Resource, Metrics: s.storageMetrics,
	})
	if err != nil {
		return nil, err
	}
	var source *custom.Source
	source, err = custom.New(custom.Config{
		Definitions: direct,
		Storage: func(spec custom.StorageSpec) (storage.Interface, error) {
			return s.openKind(spec.Path, spec.Kind, spec.Namespaced, spec.Resource, spec.IndexFields, !spec.Uncached)
		},
		OthersPath: env.Keeps,
		Changed: func(versions []schema.GroupVersion) {
			describeCustom(documents, static, source, versions)
			s.localChanged(versions)
		},
		Services: s.services, Registerer: s.registry, Following: s.following, Logger: s.logger,
	})
	if err != nil {
		return nil, err
	}
	if err := source.Load(context.Background()); err != nil {
		return nil, err
	}
	definitions.Storage = observed{Interface: definitions.Storage, written: func(record *codec.Record) error {
		if err := source.Observe(record); err != nil {
			return fmt.Errorf("take up the definition: %w", err)
		}
		return nil
	}}
	s.custom = source
	return source, nil
}

// definitionsPath is where definitions are stored.
const definitionsPath = apiextensionsv1.GroupName + "/customresourcedefinitions"

// startCustom lets the source of custom resources follow the definitions, until
// stopCustom.
func (s *Server) startCustom() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with stopCustom
		defer close(done)
		if err := s.custom.Run(ctx); err != nil {
			s.logger.Error("custom resources stopped following their definitions", "err", err)
		}
	}()
	s.stopCustom = func() { cancel(); <-done }
}

// describeCustom tells the OpenAPI documents of group versions that changed.
// Those that are built in are described as they are.
func describeCustom(documents *openapi.Documents, static *route.Static, source *custom.Source, versions []schema.GroupVersion) {
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
				return source.Schemas(context.Background(), gv, v2)
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
