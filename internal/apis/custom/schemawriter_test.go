package custom

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// TestSchemaWriter compares schemaWriter with a simple implementation that modifies documents.
func TestSchemaWriter(t *testing.T) {
	t.Parallel()
	texts := []string{`{}`, `{"type":"object"}`, ` { "properties" : null , "required":null}`,
		`{"x-kubernetes-embedded-resource":true,"properties":{"kind":{"enum":["A"]},"a":{"nullable":true,"type":"string"}},"required":["kind","a"]}`,
		`{"x-kubernetes-preserve-unknown-fields":true,"description":"x","properties":{"a":{}}}`,
		`{"type":"object","required":["a","b"],"properties":{"a":{"nullable":true,"type":"array","items":{}},"b":{"type":"array","x-kubernetes-preserve-unknown-fields":true}}}`,
		`{"properties":{"a":{"type":"string","x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"}]},"b":true},"items":[{"externalDocs":{}}]}`}
	for seed := range uint64(500) {
		g := schemaGenerator{rand.New(rand.NewPCG(seed, 1))}
		generated := g.schema(5)
		delete(generated, "nullable") // the root of a schema is never nullable
		encoded, err := json.Marshal(generated)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(encoded))
	}
	for _, as := range []schemaTarget{v3Target, v2Target, mergeTarget} {
		p := newSchemaWriter(as)
		for _, text := range texts {
			in, at := jsonplan.NewCursor([]byte(text))
			written, err := p.root(in, at, false, []byte(`{"x-more":1}`))
			if err != nil {
				t.Fatal(err)
			}
			var got, want map[string]any
			if err := json.Unmarshal(written, &got); err != nil {
				t.Fatalf("%s: %v\n%s", text, err, written)
			}
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			if as == v2Target && want["x-kubernetes-preserve-unknown-fields"] == true {
				want = map[string]any{"type": "object", "x-more": 1.0}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s (-want +got):\n%s", text, diff)
				}
				continue
			}
			publishDocument(want, as)
			types := metav1.TypeMeta{}.SwaggerDoc()
			withMembers(want, map[string]any{
				"apiVersion": property("string", types["apiVersion"]), "kind": property("string", types["kind"]),
				"metadata": reference("Standard object's metadata. More info: "+conventions+"#metadata", metaModels+"ObjectMeta", as),
			})
			want["x-more"] = 1.0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%d: %s (-want +got):\n%s", as, text, diff)
			}
		}
	}
	in, at := jsonplan.NewCursor([]byte(`{"properties":{"a":`))
	if _, err := newSchemaWriter(v3Target).root(in, at, false, []byte(`{}`)); err == nil {
		t.Error("root accepted an incomplete schema")
	}
}

// schemaGenerator creates random schemas with all keywords that schemaWriter processes.
type schemaGenerator struct{ *rand.Rand }

func (g schemaGenerator) schema(depth int) map[string]any {
	s := map[string]any{"description": "it's <what> it \"is\" \n"}
	sometimes := func(name string, value any) {
		if g.IntN(4) == 0 {
			s[name] = value
		}
	}
	sometimes("type", []any{"object", "array"}[g.IntN(2)])
	sometimes("x-kubernetes-preserve-unknown-fields", g.IntN(2) == 0)
	sometimes("nullable", g.IntN(2) == 0)
	sometimes("externalDocs", map[string]any{"url": "x"})
	sometimes("x-kubernetes-int-or-string", g.IntN(2) == 0)
	sometimes("x-kubernetes-embedded-resource", g.IntN(2) == 0)
	sometimes("required", []any{"a0", "kind", "a1"}[:1+g.IntN(3)])
	sometimes("default", map[string]any{"externalDocs": 1, "items": []any{1.5, nil}})
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		sometimes(name, []any{map[string]any{"type": "integer", "externalDocs": 1}})
	}
	sometimes("not", map[string]any{"type": "integer"})
	if depth == 0 {
		return s
	}
	if g.IntN(2) == 0 {
		members := map[string]any{}
		for i := range g.IntN(4) {
			members[fmt.Sprint("a", i)] = g.schema(depth - 1)
		}
		if g.IntN(3) == 0 {
			members["metadata"] = g.schema(0)
		}
		s["properties"] = members
	}
	sometimes("items", g.schema(depth-1))
	sometimes("additionalProperties", []any{true, g.schema(depth - 1)}[g.IntN(2)])
	return s
}

func withMembers(doc, members map[string]any) {
	have, _ := doc["properties"].(map[string]any)
	if have == nil {
		have = map[string]any{}
		doc["properties"] = have
	}
	for name, member := range members {
		have[name] = member
	}
}

// internalKeywords contains the keywords that affect a merge schema but do not occur in it.
var internalKeywords = []string{"x-kubernetes-int-or-string", "x-kubernetes-embedded-resource"}

// publishDocument applies the changes that schemaWriter makes to a document in place.
func publishDocument(doc map[string]any, as schemaTarget) {
	if as == mergeTarget {
		maps.DeleteFunc(doc, func(name string, _ any) bool { return !affectsMerge(name) && !slices.Contains(internalKeywords, name) })
		defer maps.DeleteFunc(doc, func(name string, _ any) bool { return slices.Contains(internalKeywords, name) })
	}
	may := nullableMembers(doc)
	each(doc, func(inner map[string]any) { publishDocument(inner, as) })
	delete(doc, "externalDocs")
	if doc["x-kubernetes-int-or-string"] == true && as != v2Target {
		delete(doc, "type")
		if _, said := doc["anyOf"]; !said && as == v3Target {
			doc["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		}
	}
	if as == v2Target {
		publishDocumentV2(doc, may)
	}
	if doc["x-kubernetes-embedded-resource"] == true && (as != v2Target || doc["x-kubernetes-preserve-unknown-fields"] != true) {
		publishEmbeddedDocument(doc, as)
	}
}

// nullableMembers returns the names of properties that may be null; "*" stands for additional
// properties.
func nullableMembers(doc map[string]any) map[string]bool {
	names := map[string]bool{}
	members, _ := doc["properties"].(map[string]any)
	for name, member := range members {
		if member, ok := member.(map[string]any); ok && member["nullable"] == true {
			names[name] = true
		}
	}
	if free, ok := doc["additionalProperties"].(map[string]any); ok && free["nullable"] == true {
		names["*"] = true
	}
	return names
}

func publishDocumentV2(doc map[string]any, mayBeNull map[string]bool) {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not", "default"} {
		delete(doc, keyword)
	}
	nullable, keeps := doc["nullable"] == true, doc["x-kubernetes-preserve-unknown-fields"] == true
	if nullable || keeps {
		delete(doc, "items")
		delete(doc, "properties")
	}
	if nullable || doc["type"] == "array" && doc["items"] == nil || keeps && doc["type"] == "object" {
		delete(doc, "type")
	}
	members, _ := doc["properties"].(map[string]any)
	if required, ok := doc["required"].([]any); ok {
		left := slices.DeleteFunc(slices.Clone(required), func(name any) bool {
			return members[name.(string)] != nil && mayBeNull[name.(string)]
		})
		if doc["required"] = left; len(left) == 0 && len(required) > 0 {
			delete(doc, "required")
		}
	}
	if mayBeNull["*"] {
		delete(doc, "required")
	}
	if nullable {
		delete(doc, "nullable")
	}
}

func publishEmbeddedDocument(doc map[string]any, as schemaTarget) {
	withMembers(doc, map[string]any{
		"apiVersion": property("string", "apiVersion defines the versioned schema of this representation of an object. More info: "+conventions+"#resources"),
		"kind":       property("string", "kind is a string value representing the type of this object. In CamelCase. More info: "+conventions+"#types-kinds"),
		"metadata":   reference("Standard object's metadata. More info: "+conventions+"#metadata", metaModels+"ObjectMeta", as),
	})
	required, _ := doc["required"].([]any)
	for _, name := range []any{"kind", "apiVersion"} {
		if !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	doc["required"] = required
}

// each calls visit for the schemas of the children.
func each(doc map[string]any, visit func(map[string]any)) {
	if members, ok := doc["properties"].(map[string]any); ok {
		for _, member := range members {
			if inner, ok := member.(map[string]any); ok {
				visit(inner)
			}
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if inner, ok := doc[keyword].(map[string]any); ok {
			visit(inner)
		}
	}
}
