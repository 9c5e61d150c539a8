package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/gnostic-models/compiler"
	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// asGnostic parses a document with gnostic. It returns false on error.
func asGnostic(t testing.TB, data []byte, v version) (document proto.Message, ok bool) {
	t.Helper()
	defer func() {
		if recover() != nil { // gnostic panics on a list instead of an object
			document, ok = nil, false
		}
	}()
	compiler.ClearCaches()
	var err error
	if v == v2 {
		document, err = openapi_v2.ParseDocument(data)
	} else {
		document, err = openapi_v3.ParseDocument(data)
	}
	return document, err == nil
}

// unmarshal decodes the protobuf form of a document.
func unmarshal(t testing.TB, wire []byte, v version) proto.Message {
	t.Helper()
	var document proto.Message = &openapi_v3.Document{}
	if v == v2 {
		document = &openapi_v2.Document{}
	}
	if err := proto.Unmarshal(wire, document); err != nil {
		t.Fatal(err)
	}
	return document
}

func testMessages(v version) *message { return openLibrary(modelsFile).messages[v]() }

// checkProtobuf compares the encoder's output for a document with that of gnostic.
func checkProtobuf(t *testing.T, name string, data []byte, v version) {
	t.Helper()
	want, ok := asGnostic(t, data, v)
	if !ok {
		t.Errorf("%s: gnostic rejects it", name)
		return
	}
	wire, err := toProtobuf(data, testMessages(v))
	if err != nil {
		t.Errorf("convert %s to Protobuf: %v", name, err)
		return
	}
	if got := unmarshal(t, wire, v); !proto.Equal(want, got) {
		t.Errorf("%s (-gnostic +ours):\n%.3000s", name, cmp.Diff(want, got, protocmp.Transform()))
	}
}

// TestProtobuf compares the protobuf forms of the documents of all versions, of the recorded documents, and
// of documents of custom resources with those of gnostic.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	documents := testDocuments(t, true)
	checkProtobuf(t, "v2", plain(t, documents.V2()), v2)
	part, _ := customPart(t)
	documents.Set(part)
	for path, d := range documents.allLocked() {
		checkProtobuf(t, path, plain(t, d), v3)
	}
	var recorded any
	readJSON(t, "recorded-v2.json.gz", &recorded)
	checkProtobuf(t, "recorded v2", mustEncode(t, recorded), v2)
	var whole struct {
		Documents map[string]struct{ Paths any }
		Schemas   any
	}
	readJSON(t, "recorded-v3.json.gz", &whole)
	for path, d := range whole.Documents {
		checkProtobuf(t, "recorded "+path, mustEncode(t, map[string]any{
			"openapi": "3.0.0", "info": info{"Kubernetes", "1"}, "paths": d.Paths, "components": map[string]any{"schemas": whole.Schemas},
		}), v3)
		whole.Schemas = map[string]any{} // the schemas are the same in all documents
	}
}

func mustEncode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestProtobufOfAnything creates random documents from the table of messages and compares the output with
// that of gnostic.
func TestProtobufOfAnything(t *testing.T) {
	t.Parallel()
	for v, table := range map[version]*message{v2: testMessages(v2), v3: testMessages(v3)} {
		accepted, times := uint64(0), few(t, 2000)
		for seed := range times {
			m := maker{rand.New(rand.NewPCG(seed, uint64(v))), []rune(characters)}
			document := m.object(table, 7)
			document["info"] = map[string]any{"title": "t", "version": "v"}
			if document["paths"] == nil {
				document["paths"] = map[string]any{}
			}
			delete(document, "swagger")
			delete(document, "openapi")
			document[map[version]string{v2: "swagger", v3: "openapi"}[v]] = map[version]string{v2: "2.0", v3: "3.0.0"}[v]
			data := mustEncode(t, document)
			if _, ok := asGnostic(t, data, v); ok {
				accepted++
				checkProtobuf(t, fmt.Sprintf("version %d, seed %d: %s", v, seed, data), data, v)
			}
		}
		if accepted < times/20 {
			t.Errorf("version %d: gnostic accepts %d documents of %d", v, accepted, times)
		}
	}
}

// few returns times, or times/10 with -short.
func few(t *testing.T, times uint64) uint64 {
	t.Helper()
	if testing.Short() {
		return times / 10
	}
	return times
}

// TestProtobufOmitsUnknownMembers checks that the encoder omits only the members for which a message has no
// field. gnostic would reject the complete document.
func TestProtobufOmitsUnknownMembers(t *testing.T) {
	t.Parallel()
	const document = `{"swagger":"2.0","definitions":{"a":{%s"type":"string"},"b":{"title":"B"}}}`
	for _, test := range []struct {
		odd  string
		left int
	}{
		{``, 0}, {`"oneOf":[{"type":"x"}],`, 1}, {`"nullable":true,"$id":{},`, 2}, {`"title":[],`, 1}, {`"maxLength":1.5,`, 1},
		{`"maximum":1e999,`, 1}, {`"uniqueItems":"yes",`, 1}, {`"required":["a",{}],`, 1}, {`"properties":["a"],`, 1},
		{`"properties":{"a":"b"},`, 1}, {`"xml":{"name":"a","name":"b"},`, 1}, {`"allOf":[1],`, 1}, {`"enum":{"a":1},`, 1},
	} {
		wire, left, err := encode(fmt.Appendf(nil, document, test.odd), testMessages(v2))
		if err != nil || left != test.left {
			t.Errorf("%s: %d values left out, want %d; error %v", test.odd, left, test.left, err)
			continue
		}
		models := unmarshal(t, wire, v2).(*openapi_v2.Document).Definitions.AdditionalProperties
		if len(models) != 2 || models[0].Value.Type.Value[0] != "string" || models[1].Name != "b" || models[1].Value.Title != "B" {
			t.Errorf("%s: definitions %v, want a string and b with the title B", test.odd, models)
		}
	}
	for _, text := range []string{``, `{`, `{"swagger":`, `{"info":{"title":"\x"}}`, `{}}`, `{"paths":{"/":[}}`, strings.Repeat(`{"x-a":`, 5000)} {
		if _, err := toProtobuf([]byte(text), testMessages(v2)); err == nil {
			t.Errorf("%.40s: no error", text)
		}
	}
}

// maker creates random values.
type maker struct {
	*rand.Rand
	characters []rune // of texts
}

const (
	characters = "ab:?-#,[]{}&*!|>'\"%@`. ~1e_+é€\u00a0😀\t\\/\x01\x7f"
	lineMarks  = "\ufeff\u0085\u2028\r\n"
)

func (m maker) pick(list ...any) any { return list[m.IntN(len(list))] }

func (m maker) any(depth int) any {
	switch m.IntN(8) {
	case 0:
		list := make([]any, m.IntN(4))
		for i := range list {
			list[i] = m.any(depth - 1)
		}
		if depth > 0 {
			return list
		}
	case 1, 2:
		object := map[string]any{}
		for range m.IntN(4) {
			object[m.text()] = m.any(depth - 1)
		}
		if depth > 0 {
			return object
		}
	case 3:
		return m.pick(nil, true, false, 0, -1, 1.5, 1e300, 12345678901)
	}
	return m.text()
}

func (m maker) text() string {
	if len(m.characters) > len([]rune(characters)) && m.IntN(50) == 0 {
		return "<<"
	}
	whole := []any{"", "atomic", "true", "No", "null", "~", "1", "0x1F", "1_000", "-.5e3", "2020-01-02", "2020-01-02T03:04:05Z", "=", ".inf", "---", "x: y", "a #b", "self.a == 'x' && b"}
	if m.IntN(2) == 0 {
		return m.pick(whole...).(string)
	}
	var b strings.Builder
	for range m.IntN(7) {
		b.WriteRune(m.characters[m.IntN(len(m.characters))])
	}
	return b.String()
}

// object creates an object for a message.
func (m maker) object(of *message, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(of.members)) { // sorted, so that the result depends only on the seed
		f := of.members[name]
		if m.IntN(3) == 0 || name == "in" || name == "type" || name == "schema" || name == "description" || name == "url" || name == "name" {
			object[name] = m.value(name, f, depth-1)
		}
	}
	delete(object, m.pick("", "$ref").(string))
	if f := of.extensions; f != nil && m.IntN(3) == 0 {
		object["x-"+m.text()] = m.any(3)
	}
	if f := of.others; f != nil {
		for range m.IntN(3) {
			name := m.text()
			switch {
			case strings.HasPrefix(of.name, "Responses") && of.extensions != nil:
				name = m.pick("200", "404", "default").(string)
			case of.name == "Paths":
				name = "/" + name
			}
			object[name] = m.value(name, &messageField{kind: f.kind, message: f.message}, depth-1)
		}
	}
	return object
}

func (m maker) value(name string, f *messageField, depth int) any {
	if f.list {
		list := make([]any, m.IntN(3))
		for i := range list {
			list[i] = m.value(name, &messageField{kind: f.kind, message: f.message}, depth)
		}
		return list
	}
	switch f.kind {
	case kindBool:
		return m.IntN(2) == 0
	case kindInt:
		return m.pick(0, 1, -7, 1<<40)
	case kindNumber:
		return m.pick(0, 1, -7.25, 1e30)
	case kindAny:
		return m.any(3)
	case kindText:
		switch name {
		case "in":
			return m.pick("body", "query", "path", "header", "formData")
		case "type":
			return m.pick("string", "integer", "file", "basic", "apiKey", "oauth2")
		}
		return m.text()
	}
	switch inner := f.message; {
	case depth <= 0 || inner.whole == nil:
		return m.object(inner, min(depth, 2))
	default:
		return m.value(name, inner.whole[m.IntN(len(inner.whole))], depth)
	}
}

// TestProtobufOfYAML compares values that are encoded as YAML with gnostic's output. They must be identical
// except for text that matches folded or quoted.
func TestProtobufOfYAML(t *testing.T) {
	t.Parallel()
	for seed := range few(t, 1000) {
		m := maker{rand.New(rand.NewPCG(seed, 7)), []rune(characters + lineMarks)}
		checkYAML(t, mustEncode(t, m.any(5)))
	}
}

func checkYAML(t *testing.T, value []byte) {
	t.Helper()
	data := fmt.Appendf(nil, `{"swagger":"2.0","info":{"title":"","version":"","x-a":%s},"paths":{}}`, value)
	parsed, ok := asGnostic(t, data, v2)
	if !ok || folded.Match(value) {
		return
	}
	wire, left, err := encode(data, testMessages(v2))
	if err != nil || left > 0 {
		t.Fatalf("%s: %d values left out, error %v", value, left, err)
	}
	want := parsed.(*openapi_v2.Document).Info.VendorExtension[0].Value.Yaml
	got := unmarshal(t, wire, v2).(*openapi_v2.Document).Info.VendorExtension[0].Value.Yaml
	if got != want && !quoted.Match(value) {
		t.Errorf("%s: wrote %q; want %q", value, got, want)
	}
	// Decoding returns the original value.
	var again, first any
	if err := json.Unmarshal(value, &first); err != nil {
		return
	}
	if node, err := compiler.ReadInfoFromBytes("", []byte(got)); err != nil || node.Content[0].Decode(&again) != nil {
		t.Errorf("%s: written as %q, which cannot be read: %v", value, got, err)
	} else if diff := cmp.Diff(first, viaJSON(again)); diff != "" {
		t.Errorf("%s: written as %q, which has a different value:\n%s", value, got, diff)
	}
}

// viaJSON converts a YAML value to the types of JSON values.
func viaJSON(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var out any
	_ = json.Unmarshal(data, &out)
	return out
}

var (
	// folded matches line breaks that YAML folds in a JSON string. gnostic therefore does not preserve
	// them.
	folded = regexp.MustCompile("[\u0085\u2028\u2029\r\n]")
	// quoted matches text that the encoder quotes differently from gnostic.
	quoted = regexp.MustCompile(`\\[rn]|\\u20[0-9]|\x{feff}|<<|\\u003c\\u003c|"[^"]{128,}"\s*:`)
)

// FuzzProtobuf checks that the encoder does not panic. If gnostic accepts a document and the encoder omits
// no member, the two outputs must be equal.
func FuzzProtobuf(f *testing.F) {
	f.Add([]byte(`{"swagger":"2.0","info":{"title":"","version":"1"},"paths":{"/a":{"get":{"parameters":[{"$ref":"#/a"},{"in":"body","name":"b","schema":{"type":["a"],"default":{"a":[1]}}}],"responses":{"200":{"description":"","schema":{"type":"file"}}}}}},"definitions":{"a":{"additionalProperties":true,"items":{"$ref":"b"},"maximum":1.5}}}`), true)
	f.Add([]byte(`{"openapi":"3.0.0","info":{"title":"","version":"1"},"paths":{"/a":{"get":{"responses":{"200":{"description":"a","content":{"a/b":{"schema":{"allOf":[{"$ref":"#/c"}],"default":1}}}}}}}},"components":{"schemas":{"a":{"additionalProperties":{"$ref":"b"},"x-a":[{"b":null}]}}}}`), false)
	f.Add([]byte(`{"swagger":"2.0","info":{},"paths":{"/":[["a"],{"$ref":{}}]},"x-a":"\ud800"}`), true)
	messages := map[bool]*message{true: testMessages(v2), false: testMessages(v3)}
	f.Fuzz(func(t *testing.T, data []byte, isV2 bool) {
		wire, left, err := encode(data, messages[isV2])
		if err != nil {
			return
		}
		v := map[bool]version{true: v2, false: v3}[isV2]
		got := unmarshal(t, wire, v)
		if left > 0 || folded.Match(data) || !json.Valid(data) || odd.Match(data) {
			return
		}
		if want, ok := asGnostic(t, data, v); ok && !proto.Equal(want, got) {
			t.Errorf("%s (-gnostic +ours):\n%s", data, cmp.Diff(want, got, protocmp.Transform()))
		}
	})
}

// odd matches documents with known differences from gnostic: text that is quoted differently,
// extensions of callbacks (gnostic writes them twice), and numbers that are too large for gnostic.
var odd = regexp.MustCompile(quoted.String() + `|callbacks|[0-9]{19}`)

// BenchmarkProtobuf converts the documents of 500 custom resources and of the built-in resources.
func BenchmarkProtobuf(b *testing.B) {
	documents := New(Config{Version: "1.37", Parts: append(testParts(b, false), manyParts(50)...)})
	bench := func(v version, data []byte) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			m := testMessages(v)
			for b.Loop() {
				if _, err := toProtobuf(data, m); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("v2", bench(v2, plain(b, documents.V2())))
	core, _ := documents.V3("api/v1")
	b.Run("v3-core", bench(v3, plain(b, core)))
	custom, _ := documents.V3("apis/group001.example.com/v1")
	b.Run("v3-custom", bench(v3, plain(b, custom)))
}
