package schema_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
)

// compile compiles a schema in JSON.
func compile(t testing.TB, source []byte) *schema.Schema {
	t.Helper()
	s, err := compiled(source)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compiled(source []byte) (*schema.Schema, error) {
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(source, &props); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return nil, err
	}
	return schema.Compile(&internal)
}

// document decodes JSON with the Go types of decoded requests.
func document(t testing.TB, source []byte) map[string]any {
	t.Helper()
	doc := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(source, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// recorded is an object that was sent to kube-apiserver, with the resulting object or the errors in the
// response.
type recorded struct {
	Schema json.RawMessage
	Name   string
	Body   json.RawMessage
	Causes [][3]string // reason, field, message
	Result json.RawMessage
}

func readRecorded(t testing.TB) (s *schema.Schema, objects []recorded) {
	t.Helper()
	file, err := os.ReadFile("testdata/objects.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Schema != nil {
			s = compile(t, r.Schema)
			continue
		}
		objects = append(objects, r)
	}
	return s, objects
}

func faults(s *schema.Schema, doc map[string]any) field.ErrorList {
	errs := s.Validate(context.Background(), nil, doc)
	errs = append(errs, s.ValidateEmbedded(nil, doc)...)
	return append(errs, s.ValidateLists(nil, doc, nil)...)
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	s, objects := readRecorded(t)
	for _, r := range objects {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			doc := document(t, r.Body)
			if unknown := s.Prune(doc, true); len(unknown) > 0 {
				t.Errorf("unknown: %v", unknown)
			}
			s.Complete(doc)
			var got, want []string
			for _, fault := range faults(s, doc) {
				got = append(got, strings.Join([]string{string(fault.Type), fault.Field, fault.ErrorBody()}, " | "))
			}
			for _, cause := range r.Causes {
				want = append(want, strings.Join(cause[:], " | "))
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if r.Result == nil {
				return
			}
			delete(doc, "metadata")
			if diff := cmp.Diff(document(t, r.Result), doc); diff != "" {
				t.Errorf("completed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, schema, doc, want, unknown string }{
		{"unknown members", `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}}}}`,
			`{"apiVersion":"v","kind":"K","metadata":{"x":1},"a":{"b":"1","c":2},"d":3}`, `{"apiVersion":"v","kind":"K","metadata":{"x":1},"a":{"b":"1"}}`, "a.c d"},
		{"in lists", `{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}}}}}`,
			`{"l":[{"k":"1"},{"k":"2","x":1}]}`, `{"l":[{"k":"1"},{"k":"2"}]}`, "l[1].x"},
		{"in maps", `{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"object","properties":{"k":{"type":"string"}}}}}}`,
			`{"m":{"a":{"k":"1","x":1}}}`, `{"m":{"a":{"k":"1"}}}`, "m.a.x"},
		{"preserved, except in known members", `{"type":"object","properties":{"r":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"k":{"type":"object","properties":{"a":{"type":"string"}}}}}}}`,
			`{"r":{"any":{"deep":[1]},"k":{"a":"1","b":2}}}`, `{"r":{"any":{"deep":[1]},"k":{"a":"1"}}}`, "r.k.b"},
		{"embedded", `{"type":"object","properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}}}}`,
			`{"e":{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"spec":{},"x":1}}`, `{"e":{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"spec":{}}}`, "e.x"},
		{"any map", `{"type":"object","properties":{"m":{"type":"object","additionalProperties":true}}}`, `{"m":{"a":1,"b":{"c":1}}}`, `{"m":{"a":1,"b":{}}}`, "m.b.c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			doc := document(t, []byte(test.doc))
			unknown := compile(t, []byte(test.schema)).Prune(doc, true)
			if diff := cmp.Diff(document(t, []byte(test.want)), doc); diff != "" {
				t.Errorf("pruned (-want +got):\n%s", diff)
			}
			if got := strings.Join(unknown, " "); got != test.unknown {
				t.Errorf("unknown %q, want %q", got, test.unknown)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, schema, doc, want string }{
		{"a default in a default", `{"type":"object","properties":{"a":{"type":"object","default":{},"properties":{"b":{"type":"integer","default":7}}}}}`, `{}`, `{"a":{"b":7}}`},
		{"no default without its parent", `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"integer","default":7}}}}}`, `{}`, `{}`},
		{"null that is not allowed", `{"type":"object","properties":{"a":{"type":"string","default":"x"},"b":{"type":"string"},"c":{"type":"string","nullable":true,"default":"y"}}}`,
			`{"a":null,"b":null,"c":null}`, `{"a":"x","c":null}`},
		{"in lists and maps", `{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string","default":"x"}}}},"m":{"type":"object","additionalProperties":{"type":"string","default":"d"}}}}`,
			`{"l":[{},{"a":"y"}],"m":{"k":null}}`, `{"l":[{"a":"x"},{"a":"y"}],"m":{"k":"d"}}`},
		{"in an object that preserves unknown fields", `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string","default":"x"}}}`, `{"z":1}`, `{"a":"x","z":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			doc := document(t, []byte(test.doc))
			compile(t, []byte(test.schema)).Complete(doc)
			if diff := cmp.Diff(document(t, []byte(test.want)), doc); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	s := compile(t, []byte(`{"type":"object","properties":{"apiVersion":{"type":"string","enum":["v1"]},"spec":{"type":"object","properties":{
		"o":{"type":"object","minProperties":2,"properties":{"few":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"}}}}}},
		"a":{"type":"string","maxLength":3},"b":{"type":"string"},
		"l":{"type":"array","items":{"type":"string","enum":["ok"]}},
		"m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer","maximum":5},"w":{"type":"string"}}}}
	}}}}`))
	old := `{"apiVersion":"v2","kind":"K","spec":{"o":{"few":[{"k":"a"},{"k":"b"}]},"a":"toolong","b":"x","l":["bad","ok"],"m":[{"k":"1","v":9},{"k":"2","v":9}]}}`
	valid := strings.Replace(old, `"v2"`, `"v1"`, 1) // has a valid apiVersion
	for _, test := range []struct{ name, doc, want string }{
		{"only the type changed", valid, ""},
		{"nothing changed", old, "apiVersion: Unsupported value: \"v2\": supported values: \"v1\""},
		{"another field changed", strings.Replace(valid, `"x"`, `"z"`, 1), ""},
		{"the invalid field changed", strings.Replace(valid, `toolong`, `longer`, 1), "spec.a: Too long: may not be more than 3 bytes"},
		{"the list changed", strings.Replace(valid, `"ok"]`, `"ok","ok"]`, 1), `spec.l[0]: Unsupported value: "bad": supported values: "ok"`},
		{"a field was added to an entry with an invalid value", strings.Replace(valid, `"k":"1"`, `"k":"1","w":"x"`, 1), ""},
		{"the order of entries changed", `{"spec":{"m":[{"k":"2","v":9},{"k":"1","v":9}]}}`, ""},
		{"the order of entries in an invalid object changed", `{"apiVersion":"v2","kind":"K","spec":{"o":{"few":[{"k":"b"},{"k":"a"}]}}}`, "apiVersion: Unsupported value: \"v2\": supported values: \"v1\""},
		{"an entry in an invalid object changed", `{"kind":"K","spec":{"o":{"few":[{"k":"b"},{"k":"c"}]}}}`, "spec.o: Invalid value: 1: spec.o in body should have at least 2 properties"},
		{"a new entry", `{"spec":{"m":[{"k":"3","v":9}]}}`, "spec.m[0].v: Invalid value: 9: spec.m[0].v in body should be less than or equal to 5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := s.ValidateUpdate(context.Background(), nil, document(t, []byte(test.doc)), document(t, []byte(old))).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestListKeys checks which entries of a list map have equal keys, and that the time does not depend on the number
// of keys if the entries have few of them. Otherwise, the test would run for minutes.
func TestListKeys(t *testing.T) {
	t.Parallel()
	list := func(keys int) *schema.Schema {
		names := make([]string, keys)
		for i := range names {
			names[i] = fmt.Sprintf(`"k%d"`, keys-i)
		}
		return compile(t, []byte(`{"type":"object","properties":{"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[`+strings.Join(names, ",")+
			`],"items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}`))
	}
	for _, tt := range []struct {
		keys    int
		entries string
		want    []string
	}{
		{2, `{"k1":1,"k2":2},{"k2":1,"k1":2},{"k1":1},{"k2":1},{"k2":2},{"x":1}`, nil},
		{2, `{"k1":1,"k2":2,"x":1},{"k2":2,"k1":1}`, []string{`l[1]: Duplicate value: {"k1":1,"k2":2}`}},
		{2, `{"k1":1,"x":2},{"k1":1}`, []string{`l[1]: Duplicate value: {"k1":1}`}},
		{2, `{"x":1},{}`, []string{`l[1]: Duplicate value: {}`}},
		{1, `{"k1":1},{"k1":"1"},{"k1":null},{}`, nil},
		{20_000, `{"k1":1},{"k10":1},{"k20000":1},{"k1":1},` + strings.Repeat("{},", 400_000) + `{}`,
			[]string{`l[3]: Duplicate value: {"k1":1}`, `l[5]: Duplicate value: {}`}},
	} {
		var got []string
		for _, err := range list(tt.keys).ValidateLists(nil, document(t, []byte(`{"l":[`+tt.entries+`]}`)), nil) {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%d keys, %.100s (-want +got):\n%s", tt.keys, tt.entries, diff)
		}
	}
}

// TestDefaultsAreBounded checks that defaults cannot make a document of a few hundred KB exhaust the memory.
func TestDefaultsAreBounded(t *testing.T) {
	t.Parallel()
	const entries, limit = 100_000, 70 << 20
	text := `"` + strings.Repeat("x", 10_000) + `"`
	for name, test := range map[string]struct{ items, entry string }{
		"of members":           {`{"type":"object","properties":{"a":{"type":"string","default":` + text + `}}}`, `{}`},
		"of map members":       {`{"type":"object","additionalProperties":{"type":"string","default":` + text + `}}`, `{"a":null}`},
		"of elements":          {`{"type":"string","default":` + text + `}`, `null`},
		"of embedded metadata": {`{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"metadata":{"type":"object","properties":{"generateName":{"type":"string","default":` + text + `}}}}}`, `{"metadata":{}}`},
		"with many members":    {`{"type":"object","properties":{"a":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":{"l":[` + strings.Repeat("0,", 5_000) + `0]}}}}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, []byte(`{"type":"object","properties":{"l":{"type":"array","items":`+test.items+`}}}`))
			s.PruneDefaults()
			for _, complete := range []func(map[string]any){s.Complete, s.SetDefaults} {
				doc := document(t, []byte(`{"l":[`+strings.Repeat(test.entry+",", entries-1)+test.entry+`]}`))
				complete(doc)
				if size := sizeOf(doc); size < limit/10 || size > limit {
					t.Errorf("the document has %d bytes, want defaults, but at most %d", size, limit)
				}
			}
		})
	}
}

// sizeOf returns the approximate size of a value in JSON, in bytes.
func sizeOf(value any) int {
	size := 0
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			size += len(name) + sizeOf(member)
		}
	case []any:
		for _, element := range value {
			size += sizeOf(element) + 8
		}
	case string:
		size = len(value)
	}
	return size
}

// TestRatchetingOfAlternatives checks that values in allOf, anyOf, oneOf and not are validated even if they are
// unchanged. Otherwise, an alternative would accept a value that it does not describe.
func TestRatchetingOfAlternatives(t *testing.T) {
	t.Parallel()
	const old = `{"spec":{"a":1,"b":"x"}}`
	for _, test := range []struct{ name, keywords, want string }{
		{"not", `"not":{"properties":{"a":{"minimum":5}}}`, ""},
		{"oneOf", `"oneOf":[{"properties":{"a":{"minimum":5}}},{"properties":{"a":{"maximum":4}}}]`, ""},
		{"anyOf", `"anyOf":[{"properties":{"a":{"minimum":5}}},{"properties":{"a":{"minimum":6}}}]`,
			`[<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf), spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 5]`},
		{"allOf", `"allOf":[{"properties":{"a":{"minimum":5}}}]`,
			`[spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 5, <nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, []byte(`{"type":"object","properties":{"spec":{"type":"object",`+test.keywords+`,"properties":{"a":{"type":"integer"},"b":{"type":"string"}}}}}`))
			changed := document(t, []byte(strings.Replace(old, `"x"`, `"y"`, 1)))
			got := ""
			if err := s.ValidateUpdate(context.Background(), nil, changed, document(t, []byte(old))).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if errs := s.ValidateUpdate(context.Background(), nil, document(t, []byte(old)), document(t, []byte(old))); len(errs) > 0 {
				t.Errorf("an unchanged value has the errors %v", errs)
			}
		})
	}
}

// TestPruneDefaults checks that defaults are pruned like values, including the metadata of embedded
// resources.
func TestPruneDefaults(t *testing.T) {
	t.Parallel()
	s := compile(t, []byte(`{"type":"object","properties":{
		"plain":{"type":"object","properties":{"a":{"type":"string"}},"default":{"a":"A","b":"B"}},
		"e":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{
			"kind":{"type":"string","default":"K"},
			"metadata":{"type":"object","properties":{"name":{"type":"string","default":"n"},"other":{"type":"string","default":"o"},
				"labels":{"type":"object","default":{"a":"b"}},"annotations":{"type":"object","default":{"a":1}},
				"finalizers":{"type":"array","items":{"type":"string","default":"f"}}}}}}}}`))
	s.PruneDefaults()
	doc := document(t, []byte(`{"e":{"metadata":{}}}`))
	s.Complete(doc)
	want := document(t, []byte(`{"plain":{"a":"A"},"e":{"kind":"K","metadata":{"name":"n","labels":{"a":"b"}}}}`))
	if diff := cmp.Diff(want, doc); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if finalizers := s.Properties["e"].Properties["metadata"].Properties["finalizers"]; finalizers.Items.Default != "f" {
		t.Errorf("the default of an element: %v", finalizers.Items.Default)
	}
}

func TestCoerceMetadata(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, doc, want, unknown, err string
		lenient                       bool
	}{
		{name: "plain", doc: `{"metadata":{"name":"n","labels":{"a":"b"},"generation":1,"creationTimestamp":"2026-01-02T03:04:05Z"}}`},
		{name: "unknown", doc: `{"metadata":{"name":"n","foo":1}}`, want: `{"metadata":{"name":"n"}}`, unknown: "metadata.foo"},
		{name: "empty members", doc: `{"metadata":{"name":"n","labels":{},"creationTimestamp":null}}`, want: `{"metadata":{"name":"n"}}`},
		{name: "wrong type", doc: `{"metadata":{"labels":{"a":1}}}`, err: "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"},
		{name: "wrong type, dropped", doc: `{"metadata":{"name":"n","labels":{"a":1}}}`, want: `{"metadata":{"name":"n"}}`, lenient: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			doc := document(t, []byte(test.doc))
			unknown, err := schema.CoerceMetadata(doc, true, test.lenient)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				test.want = test.doc
			}
			if diff := cmp.Diff(document(t, []byte(test.want)), doc); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := strings.Join(unknown, " "); got != test.unknown {
				t.Errorf("unknown %q, want %q", got, test.unknown)
			}
		})
	}
}

// FuzzSchema checks that completion and pruning are idempotent and preserve validity, for all
// schemas and documents.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","default":"x"}}}}`), []byte(`{"a":[null,"b",{"c":1}],"d":[]}`))
	f.Add([]byte(`{"type":"object","x-kubernetes-embedded-resource":true,"oneOf":[{"required":["a"]},{"not":{"maxProperties":2}}]}`), []byte(`{"metadata":{"labels":1}}`))
	f.Add([]byte(`{"type":"object","additionalProperties":{"type":"number","multipleOf":0.1,"format":"double","enum":[1,2.5]}}`), []byte(`{"a":1e300,"b":"x","c":null}`))
	f.Fuzz(func(t *testing.T, source, body []byte) {
		s, err := compiled(source)
		doc := map[string]any{}
		if err != nil || kjson.UnmarshalCaseSensitivePreserveInts(body, &doc) != nil || doc == nil {
			return
		}
		s.Complete(doc)
		valid := len(faults(s, doc)) == 0
		again := runtime.DeepCopyJSON(doc)
		s.Complete(again)
		if diff := cmp.Diff(doc, again); diff != "" {
			t.Fatalf("completing is not idempotent:\n%s", diff)
		}
		if unknown := s.Prune(again, true); len(unknown) > 0 {
			t.Fatalf("unknown after completing: %v", unknown)
		}
		if valid && len(faults(s, again)) > 0 {
			t.Fatalf("a valid document is invalid after completion and pruning: %v", faults(s, again))
		}
		if valid && len(s.ValidateUpdate(context.Background(), nil, again, doc)) > 0 {
			t.Fatal("a valid document is invalid as an update of itself")
		}
		if !valid && len(s.ValidateUpdate(context.Background(), nil, again, doc)) > 0 {
			t.Fatal("an unchanged invalid document is rejected")
		}
	})
}

func BenchmarkComplete(b *testing.B) {
	s, objects := readRecorded(b)
	doc := document(b, objects[1].Body)
	for b.Loop() {
		s.Complete(doc)
	}
}

func BenchmarkValidate(b *testing.B) {
	s, objects := readRecorded(b)
	doc := document(b, objects[1].Body)
	for b.Loop() {
		if len(faults(s, doc)) > 0 {
			b.Fatal("not valid")
		}
	}
}

// TestManyFaults checks that the number of errors of a document is limited, and that finding them
// takes linear time.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	const entries = 50_000
	for name, test := range map[string]struct{ schema, entry string }{
		"types":        {`{"type":"array","items":{"type":"string"}}`, `1`},
		"enums":        {`{"type":"array","items":{"type":"string","enum":["a"]}}`, `"b"`},
		"required":     {`{"type":"array","items":{"type":"object","required":["a"]}}`, `{}`},
		"alternatives": {`{"type":"array","items":{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}}`, `{}`},
		"embedded":     {`{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true}}`, `{}`},
		"sets":         {`{"type":"array","items":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}}}`, `[1,1]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := compiled([]byte(`{"type":"object","properties":{"l":` + test.schema + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			doc := document(t, []byte(`{"l":[`+strings.Repeat(test.entry+",", entries-1)+test.entry+`]}`))
			errs := faults(s, doc)
			if len(errs) < 1000 || len(errs) > 3000 {
				t.Errorf("%d errors are reported, want between 1000 and 3000", len(errs))
			}
			seen := map[string]bool{}
			for _, err := range errs {
				if seen[err.Error()] {
					t.Fatalf("reported twice: %v", err)
				}
				seen[err.Error()] = true
			}
		})
	}
}

// TestLargeFaults checks that the total size of errors is limited even if each error is large.
func TestLargeFaults(t *testing.T) {
	t.Parallel()
	const entries = 2_000
	list := func(format string) string {
		texts := make([]string, entries)
		for i := range texts {
			texts[i] = strings.ReplaceAll(format, "NAME", fmt.Sprintf("name%d", i))
		}
		return strings.Join(texts, ",")
	}
	for name, test := range map[string]struct{ items, entries string }{
		"enum of strings":  {`{"type":"string","enum":[` + list(`"NAME"`) + `]}`, list(`"x-NAME"`)},
		"enum of numbers":  {`{"type":"integer","enum":[` + strings.Repeat(`1000000,`, entries) + `1]}`, strings.Repeat("2,", entries) + "2"},
		"required members": {`{"type":"object","required":[` + list(`"NAME"`) + `]}`, strings.Repeat("{},", entries) + "{}"},
		"long values":      {`{"type":"string","pattern":"^$"}`, strings.Repeat(`"`+strings.Repeat("x", 10_000)+`",`, entries) + `""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, []byte(`{"type":"object","properties":{"l":{"type":"array","items":`+test.items+`}}}`))
			size := 0
			errs := faults(s, document(t, []byte(`{"l":[`+test.entries+`]}`)))
			for _, err := range errs {
				size += len(err.Error())
			}
			if len(errs) == 0 || size > 10<<20 {
				t.Errorf("%d errors of %d bytes, want at most 10 MB", len(errs), size)
			}
		})
	}
}

// TestDeepUnknownMembers checks that the total size of the reported paths is limited.
func TestDeepUnknownMembers(t *testing.T) {
	t.Parallel()
	const depth, entries = 2_000, 20_000
	nested := func(before, inner, after string) string {
		return strings.Repeat(before, depth) + inner + strings.Repeat(after, depth)
	}
	inner := `{"type":"object","additionalProperties":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}}}`
	s := compile(t, []byte(nested(`{"type":"object","properties":{"a":`, inner, `}}`)))
	for _, entry := range []string{`{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"unknown":1}`, `{"metadata":{"unknown":1}}`, `{}`} {
		var members []string
		for i := range entries {
			members = append(members, fmt.Sprintf(`"k%d":%s`, i, entry))
		}
		doc := document(t, []byte(nested(`{"a":`, `{`+strings.Join(members, ",")+`}`, `}`)))
		unknown := s.Prune(doc, true)
		embedded, err := s.CoerceEmbedded(nil, doc, true, false)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, path := range append(unknown, embedded...) {
			size += len(path)
		}
		if reported := size > 0; reported != strings.Contains(entry, "unknown") || size > 2<<20 {
			t.Errorf("%s: the paths have %d bytes", entry, size)
		}
	}
}

// TestInterruptedValidation checks that the validation stops when the context ends. Otherwise, it would take
// many minutes for these documents of a few hundred KB.
func TestInterruptedValidation(t *testing.T) {
	t.Parallel()
	const entries = 50_000
	repeated := func(text string) string { return strings.Repeat(text+",", entries) + text }
	for name, test := range map[string]struct{ items, entry string }{
		"allOf": {`{"type":"object","allOf":[` + repeated(`{}`) + `]}`, `{}`},
		"anyOf": {`{"type":"object","anyOf":[` + repeated(`{"required":["a"]}`) + `]}`, `{}`},
		"enum":  {`{"type":"integer","enum":[` + repeated(`1`) + `,2]}`, `2`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, []byte(`{"type":"object","properties":{"l":{"type":"array","items":`+test.items+`}}}`))
			cause := errors.New("the client has gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			errs := s.Validate(ctx, nil, document(t, []byte(`{"l":[`+repeated(test.entry)+`]}`)))
			if len(errs) == 0 || !strings.Contains(errs[len(errs)-1].Error(), cause.Error()) {
				t.Errorf("errors %v, want %v", errs, cause)
			}
		})
	}
}

// TestCostlyPattern checks that a value is rejected if matching its pattern would take minutes.
func TestCostlyPattern(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow")
	}
	s, err := compiled([]byte(`{"type":"object","additionalProperties":{"type":"string","pattern":"^([a-z]{1,1000}|[a-y]{1,1000}-)*$"}}`))
	if err != nil {
		t.Fatal(err)
	}
	errs := faults(s, map[string]any{"long": strings.Repeat("b", 1<<20), "short": "b", "wrong": "B"})
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	const pattern = "'^([a-z]{1,1000}|[a-y]{1,1000}-)*$'"
	want := []string{"long: Invalid value: long in body takes too long to be compared with " + pattern}
	if len(got) == 0 || got[0] != want[0] {
		t.Errorf("errors %q, want %q first", got, want[0])
	}
}

// BenchmarkCompilePatterns compiles a schema with few distinct patterns that occur often, as in generated
// schemas.
func BenchmarkCompilePatterns(b *testing.B) {
	var source strings.Builder
	source.WriteString(`{"type":"object","properties":{`)
	for i := range 1000 {
		fmt.Fprintf(&source, `"f%d":{"type":"string","pattern":"^([a-z]{1,%d}|[0-9]+)$"},`, i, 250+i%5)
	}
	source.WriteString(`"last":{"type":"string"}}}`)
	text := []byte(source.String())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := compiled(text); err != nil {
			b.Fatal(err)
		}
	}
}
