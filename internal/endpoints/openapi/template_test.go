package openapi

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestTemplates compares documents that are copied from templates with documents that are built
// without templates.
func TestTemplates(t *testing.T) {
	t.Parallel()
	l := openLibrary(modelsFile)
	all := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	part := []string{"get", "patch", "update"}
	scale := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	for _, v := range []version{v2, v3} {
		for _, gv := range []schema.GroupVersion{{Group: "example.com", Version: "v1"}, {Group: "a-b.c.k8s.io", Version: "v2beta1"}} {
			p := &Part{GroupVersion: gv, Custom: true}
			schemas := map[string]Schema{}
			for _, kind := range []string{"Widget", "Access", "Ox", "Endpoints", "Bananas", "aBC"} {
				schemas["x."+kind], schemas["x."+kind+"s"] = Schema{Kind: kind}, Schema{Kind: kind + "Many", ListOf: kind}
				for _, namespaced := range []bool{true, false} {
					name := kind + map[bool]string{true: "-in", false: "-of"}[namespaced]
					p.Resources = append(p.Resources,
						Resource{Name: name, Kind: kind, Namespaced: namespaced, Verbs: all},
						Resource{Name: name, Kind: kind, Namespaced: namespaced, Subresource: "status", Verbs: part, Object: gv.WithKind(kind)},
						Resource{Name: name, Kind: kind, Namespaced: namespaced, Subresource: "scale", Verbs: part, Object: scale})
				}
			}
			copied, err := partPathItems(l, p, schemas, v)
			if err != nil {
				t.Fatal(err)
			}
			built := buildAll(t, l, p, schemas, v)
			if diff := cmp.Diff(documentOf(t, built, v), documentOf(t, copied, v)); diff != "" {
				t.Errorf("%v %v (-built +copied):\n%.2000s", v, gv, diff)
			}
			for i := range built {
				if built[i].template != nil || copied[i].template == nil {
					t.Fatalf("%s was not built, or not copied", built[i].path)
				}
			}
		}
	}
}

// buildAll builds a part without templates.
func buildAll(t *testing.T, l *library, p *Part, schemas map[string]Schema, v version) []pathItem {
	t.Helper()
	open := *p
	open.Resources = nil
	items, err := partPathItems(l, &open, schemas, v)
	if err != nil {
		t.Fatal(err)
	}
	group := identifier(p.GroupVersion.Group)
	m := &pathBuilder{
		library: l, part: p, version: v, kinds: map[string]string{}, lists: map[string]string{}, items: items,
		tag: group + "_" + p.GroupVersion.Version, idGroupVersion: title(group) + title(p.GroupVersion.Version), base: "/" + p.path(),
	}
	for name, s := range schemas {
		m.kinds[s.Kind] = name
		if s.ListOf != "" {
			m.lists[s.ListOf] = name
		}
	}
	for i := range p.Resources {
		m.addResource(&p.Resources[i])
	}
	if m.err != nil {
		t.Fatal(m.err)
	}
	sortPathItems(m.items)
	return m.items
}

func documentOf(t *testing.T, items []pathItem, v version) string {
	t.Helper()
	var w bytes.Buffer
	if v == v3 {
		if err := writeV3Paths(&w, items); err != nil {
			t.Fatal(err)
		}
		return w.String()
	}
	shared, err := writeV2Paths(&w, items)
	if err != nil {
		t.Fatal(err)
	}
	return w.String() + string(shared)
}
