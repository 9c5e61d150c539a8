//go:build !nojsonplan

package jsonplan_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/codec/codectest"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// definition contains all types of CustomResourceDefinitions that have their own JSON methods, nested
// within each other.
const definition = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","description":"a <b> & c","properties":{
"list":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"deep":{"type":"array","items":{"type":"number","minimum":-1.5e3,"maximum":7}}}}},
"map":{"type":"object","additionalProperties":{"type":"integer","minimum":0,"exclusiveMinimum":true,"multipleOf":0.25}},
"open":{"type":"object","additionalProperties":true,"x-kubernetes-preserve-unknown-fields":true},
"closed":{"type":"object","additionalProperties":false},
"choice":{"type":"string","enum":["Always","<Never>",7,null,true,{"a": [1, 2]}],"default":"Always"},
"filled":{"type":"object","default":{"a":{"b":[1.5,"x"]}},"nullable":true},
"either":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true,"not":{"enum":[-7]}},
"old":{"dependencies":{"a":["b","c"],"d":{"type":"object"}},"items":[{"type":"string"},{"type":"object"}],"additionalItems":{"type":"string"}}
},"x-kubernetes-validations":[{"rule":"self.a > 1","message":"no"}]}}}]},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}`

func TestDefinitions(t *testing.T) {
	t.Parallel()
	kind := reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]()
	if !checkRead(t, kind, []byte(definition)) {
		t.Fatal("a plain definition was not read")
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal([]byte(definition), &crd); err != nil {
		t.Fatal(err)
	}
	check(t, &crd)
	for seed := range few(20) {
		schema := &apiextensionsv1.JSONSchemaProps{}
		codectest.Fill(rand.New(rand.NewPCG(7, uint64(seed))), reflect.ValueOf(schema).Elem())
		check(t, schema)
		if body, err := json.Marshal(schema); err == nil {
			checkRead(t, reflect.TypeFor[apiextensionsv1.JSONSchemaProps](), body)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	bytes := []byte("{}[]\",:\\ntfu0-1.eE \n\x00\x80\xff<aA")
	for range few(1000) {
		body := []byte(definition)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(body))
			switch random.IntN(3) {
			case 0:
				body[at] = bytes[random.IntN(len(bytes))]
			case 1:
				body = append(body[:at], body[at+1:]...)
			default:
				from := random.IntN(len(body))
				to := min(len(body), from+random.IntN(40))
				body = append(body[:at:at], append([]byte(string(body[from:to])), body[at:]...)...)
			}
		}
		checkRead(t, kind, body)
	}
}

func TestDecodeWithout(t *testing.T) {
	t.Parallel()
	var whole, got apiextensionsv1.CustomResourceDefinition
	given := []byte(definition)
	if !jsonplan.Decode(given, &whole, nil) || !jsonplan.DecodeWithout(given, &got, "schema") {
		t.Fatal("not read")
	}
	clear(given) // decoded values must not share memory with the input
	whole.Spec.Versions[0].Schema = nil
	if !reflect.DeepEqual(whole, got) {
		t.Error(cmp.Diff(whole, got))
	}
	if jsonplan.DecodeWithout([]byte(`{"spec":{"versions":[{"schema":{"a":[1,}}]}}`), &got, "schema") {
		t.Error("invalid JSON was decoded")
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ data, name, want string }{
		{`{"a":1,"b" : {"c":[2,"\u0061\"]}"]} ,"d":null}`, "b", `{"c":[2,"\u0061\"]}"]}`},
		{`{"a":1,"b":{"d":7},"d":null}`, "d", "null"},
		{`{"a":1}`, "b", ""},
		{`{}`, "b", ""},
		{`[]`, "b", ""},
		{``, "b", ""},
		{`{"b":[1`, "b", ""},
		{`{"a":[1`, "b", ""},
		{"{\"a\":\"\x01\",\"b\":1}", "b", ""},
	} {
		got, ok := jsonplan.Member([]byte(test.data), test.name)
		if string(got) != test.want || ok != (test.want != "") {
			t.Errorf("%s of %s: %s, %v", test.name, test.data, got, ok)
		}
	}
}

func TestSeek(t *testing.T) {
	t.Parallel()
	const data = `{"z":{"b":2},"a" : [1, {"b":[ {"c":"d"} , {} ]} ,null],"e":"f"}`
	for _, test := range []struct {
		data string
		path []any
		want map[string]any
	}{
		{data, []any{"a", 1, "b", 0}, map[string]any{"c": "d"}},
		{data, []any{"a", 1, "b", 1}, map[string]any{}},
		{data, []any{"z"}, map[string]any{"b": int64(2)}},
		{data, []any{"a", 1, "b", 2}, nil},
		{data, []any{"a", "b"}, nil},
		{data, []any{"z", 0}, nil},
		{data, []any{"y"}, nil},
		{`{"a":{"b":1}, what follows`, []any{"a"}, map[string]any{"b": int64(1)}},
		{`{"a":{"b":`, []any{"a", "c"}, nil},
		{``, []any{"a"}, nil},
		{`{}`, nil, map[string]any{}},
	} {
		c, i := jsonplan.NewCursor([]byte(test.data))
		i = c.Seek(i, test.path...)
		if i == jsonplan.Invalid || test.want == nil {
			if i != jsonplan.Invalid || test.want != nil {
				t.Errorf("%v of %s: at %d", test.path, test.data, i)
			}
			continue
		}
		if got, ok := jsonplan.DecodeDocument([]byte(c.Raw(i, c.Skip(i)))); !ok || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v of %s: %v, %v", test.path, test.data, got, ok)
		}
	}
}

func BenchmarkDefinition(b *testing.B) {
	var crd apiextensionsv1.CustomResourceDefinition
	if !jsonplan.Decode([]byte(definition), &crd, nil) {
		b.Fatal("not read")
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var crd apiextensionsv1.CustomResourceDefinition
			jsonplan.Decode([]byte(definition), &crd, nil)
		}
	})
	b.Run("read without schemas", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var crd apiextensionsv1.CustomResourceDefinition
			jsonplan.DecodeWithout([]byte(definition), &crd, "schema")
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jsonplan.Marshal(&crd); err != nil {
				b.Fatal(err)
			}
		}
	})
}
