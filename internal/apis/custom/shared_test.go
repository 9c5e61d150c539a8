package custom

import (
	"errors"
	"runtime"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
	"mainstay.dev/mainstay/test/testserver"
)

// widgetSchemas contains the schemas that a Source uses for widgets.
type widgetSchemas struct {
	compiled *compiled
	merge    *mergeSchema
}

func (s *Source) widgetSchemas(t *testing.T) (w widgetSchemas) {
	t.Helper()
	h := s.awaitServed(t, "a.example.com").Storage.(instances).handler
	var err, err2 error
	w.compiled, err = h.schemaOf("v1")
	w.merge, err2 = h.types.version("v1")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSharedSchemas checks that Sources share the schemas of equal definitions, and that a changed definition of one
// Source does not affect the others.
func TestSharedSchemas(t *testing.T) {
	t.Parallel()
	var cache SchemaCache
	var sources [3]*Source
	for i := range sources {
		config := sourceOver(t, storagetest.InMemory(t), time.Hour).config
		config.Schemas = &cache
		var err error
		if sources[i], err = New(config); err != nil {
			t.Fatal(err)
		}
		sources[i].run(t)
		if _, err := config.Definitions.Create(t.Context(), widgetDefinition("a.example.com"), storage.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first := sources[0].widgetSchemas(t)
	for i, s := range sources {
		if s.widgetSchemas(t) != first {
			t.Errorf("source %d has its own schemas of an equal definition", i)
		}
	}
	changeDefinition(t, sources[1], func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Generation++
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["new"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	testserver.Eventually(t, time.Minute, func() error {
		if changed := sources[1].widgetSchemas(t); changed.compiled == first.compiled || changed.merge == first.merge {
			return errors.New("the changed definition has the earlier schemas")
		}
		return nil
	})
	if sources[0].widgetSchemas(t) != first || sources[2].widgetSchemas(t) != first {
		t.Error("a changed definition of one source affects another source")
	}
	runtime.KeepAlive(first)
}
