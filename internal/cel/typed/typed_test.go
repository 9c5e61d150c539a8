package typed

import (
	"reflect"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"mainstay.dev/mainstay/internal/cel/environment"
)

type props = apiextensions.JSONSchemaProps

func objectOf(members map[string]props) props { return props{Type: "object", Properties: members} }

func listOf(items props) props {
	return props{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &items}}
}

func mapOf(values props) props {
	return props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &values}}
}

func unknown() props {
	preserve := true
	return props{XPreserveUnknownFields: &preserve}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a": "a", "a_b": "a_b", "_": "_", "__": "__underscores__", "a__b": "a__underscores__b", "___": "__underscores___",
		"a.b": "a__dot__b", "a-b": "a__dash__b", "a/b": "a__slash__b", "namespace": "__namespace__", "in": "__in__", "namespaces": "namespaces",
		"": "", "9a": "", "a b": "", "a$": "", "ä": "", "a9": "a9", "int": "int",
	} {
		got, ok := Escape(name)
		if got != want || ok != (want != "") {
			t.Errorf("Escape(%q) = %q, %t; want %q", name, got, ok, want)
		}
	}
}

// TestTypes checks the CEL types that schemas result in.
func TestTypes(t *testing.T) {
	t.Parallel()
	text := props{Type: "string"}
	for want, schema := range map[string]props{
		"string": text, "int": {Type: "integer"}, "double": {Type: "number"}, "bool": {Type: "boolean"}, "dyn": {XIntOrString: true},
		"bytes": {Type: "string", Format: "byte"}, "google.protobuf.Duration": {Type: "string", Format: "duration"},
		"list(google.protobuf.Timestamp)": listOf(props{Type: "string", Format: "date-time"}), "map(string, google.protobuf.Timestamp)": mapOf(props{Type: "string", Format: "date"}),
		"list(selfType.@idx)": listOf(objectOf(nil)), "map(string, list(selfType.@elem.@idx))": mapOf(listOf(objectOf(nil))),
	} {
		made := new(Builder).Build(&schema, false)
		if made == nil || made.CEL().String() != want {
			t.Errorf("%v is %v, want %s", schema, made, want)
		}
	}
	for name, schema := range map[string]props{
		"unknown": unknown(), "a list of unknown": listOf(unknown()), "a map of unknown": mapOf(unknown()), "a list of anything": {Type: "array"},
	} {
		if made := new(Builder).Build(&schema, false); made != nil {
			t.Errorf("%s is %v, want none", name, made.CEL())
		}
	}
}

// TestShared checks that equal types are shared, even if the members have different names.
func TestShared(t *testing.T) {
	t.Parallel()
	one := objectOf(map[string]props{"a": {Type: "string"}, "b": listOf(props{Type: "integer"})})
	other := objectOf(map[string]props{"a": {Type: "string"}, "b": listOf(props{Type: "integer"})})
	limit := int64(4)
	limited := objectOf(map[string]props{"a": {Type: "string", MaxLength: &limit}, "b": listOf(props{Type: "integer"})})
	root := objectOf(map[string]props{"x": one, "y": other, "z": limited})
	made := new(Builder).Build(&root, false)
	if made.Field("x") != made.Field("y") {
		t.Error("equal types are not shared")
	}
	if made.Field("x") == made.Field("z") {
		t.Error("types of different sizes are shared")
	}
}

// TestInaccessible checks that members whose names cannot be expressed in CEL are distinguished from all others.
func TestInaccessible(t *testing.T) {
	t.Parallel()
	text, number := props{Type: "string"}, props{Type: "integer"}
	root := objectOf(map[string]props{
		"x": objectOf(map[string]props{"a": text, "b": number}),
		"y": objectOf(map[string]props{"a 1 b": number}),
		"z": objectOf(map[string]props{"a 1 b": text}),
		"1": text,
	})
	made := new(Builder).Build(&root, false)
	x, y, z := made.Field("x"), made.Field("y"), made.Field("z")
	if x == y || y == z {
		t.Error("different types are shared")
	}
	if y.Field("a 1 b") != nil || y.Member("a 1 b") != x.Field("b") || z.Member("a 1 b") != x.Member("a") {
		t.Errorf("the members are %v, %v and %v", y.Field("a 1 b"), y.Member("a 1 b"), z.Member("a 1 b"))
	}
	if made.Field("1") != nil || made.Member("1") == nil || made.Member("2") != nil {
		t.Error("wrong members of the root")
	}
}

// TestProvider checks that the provider resolves type names at any path.
func TestProvider(t *testing.T) {
	t.Parallel()
	inner := objectOf(map[string]props{"a-b": {Type: "string"}, "namespace": {Type: "integer"}, "hidden": unknown()})
	root := objectOf(map[string]props{"o": inner, "l": listOf(inner), "m": mapOf(listOf(inner)), "in": inner})
	made := new(Builder).Build(&root, true)
	base, err := environment.Base()
	if err != nil {
		t.Fatal(err)
	}
	p := Provider{Provider: base.CELTypeProvider(), Root: made}
	name := made.CEL().TypeName()
	for path, want := range map[string][2]string{
		".o": {"a__dash__b", "string"}, ".l.@idx": {"namespace", "int"}, ".m.@elem.@idx": {"__namespace__", "int"},
		".__in__": {"a__dash__b", "string"}, ".metadata": {"name", "string"},
	} {
		if _, found := p.FindStructType(name + path); !found {
			t.Errorf("the provider does not find the type %s", path)
		}
		got, found := p.FindStructFieldType(name+path, want[0])
		if !found || got.Type.String() != want[1] {
			t.Errorf("%s has %v, want %s", path, got, want)
		}
	}
	for _, path := range []string{".nothing", ".l", "x", ".o.a-b", ".in", "..", ".l.@idx.@idx", ".o.@elem"} {
		if _, found := p.FindStructType(name + path); found {
			t.Errorf("the provider finds a type %s", path)
		}
	}
	for _, field := range []string{"hidden", "a-b", "nothing", ""} {
		if got, found := p.FindStructFieldType(name+".o", field); found {
			t.Errorf("there is a field %q: %v", field, got)
		}
	}
	if _, found := p.FindStructType("google.protobuf.Duration"); !found {
		t.Error("the provider does not find types of the embedded provider")
	}
}

// TestValues checks the conversion of documents to CEL values, including values of a wrong type.
func TestValues(t *testing.T) {
	t.Parallel()
	nullable := props{Type: "string", Nullable: true}
	for _, test := range []struct {
		schema props
		value  any
		want   any // the Value of the result, or the text of an error
	}{
		{props{Type: "string"}, "a", "a"}, {props{Type: "string"}, int64(1), "invalid data, expected string, got int64"},
		{props{Type: "string"}, nil, "invalid data, got null for schema with nullable=false"},
		{props{Type: "integer"}, int64(7), int64(7)}, {props{Type: "integer"}, 7.0, int64(7)}, {props{Type: "integer"}, 7.5, "invalid data, expected int, got float64"},
		{props{Type: "number"}, int64(7), 7.0}, {props{Type: "number"}, 7.5, 7.5}, {props{Type: "number"}, "x", "invalid data, expected float, got string"},
		{props{Type: "boolean"}, true, true}, {props{Type: "boolean"}, "x", "invalid data, expected bool, got string"},
		{props{XIntOrString: true}, "5%", "5%"}, {props{XIntOrString: true}, int64(5), int64(5)},
		{props{XIntOrString: true}, 5.5, "invalid data, expected XIntOrString value to be either a string or integer"},
		{props{Type: "string", Format: "byte"}, "QUI=", []byte("AB")},
		{props{Type: "string", Format: "byte"}, "*", "Invalid byte formatted string *: illegal base64 data at input byte 0"},
		{props{Type: "string", Format: "duration"}, "x", "Invalid duration x: unable to parse x as duration"},
		{props{Type: "string", Format: "date-time"}, "x", `Invalid date-time formatted string x: parsing time "x" as "2006-01-02T15:04:05": cannot parse "x" as "2006"`},
		{props{Type: "string", Format: "date"}, "x", `Invalid date formatted string x: parsing time "x" as "2006-01-02": cannot parse "x" as "2006"`},
		{objectOf(nil), "x", "invalid data, expected a map for the provided schema with type=object"},
		{listOf(nullable), "x", "invalid data, expected an array for the provided schema with type=array"},
	} {
		got := new(Builder).Build(&test.schema, false).Value(test.value)
		var plain any = got.Value()
		if err, ok := got.(*types.Err); ok {
			plain = err.String()
		}
		if !reflect.DeepEqual(plain, test.want) {
			t.Errorf("%v of %v is %#v, want %#v", test.value, test.schema, plain, test.want)
		}
	}
	if got := new(Builder).Build(&nullable, false).Value(nil); got != types.NullValue {
		t.Errorf("null is %v", got)
	}
}

// TestExpressionsDoNotModifyDocument checks that expressions do not modify the document.
func TestExpressionsDoNotModifyDocument(t *testing.T) {
	t.Parallel()
	keys, set := "map", "set"
	entries := listOf(objectOf(map[string]props{"k": {Type: "string"}, "v": {Type: "integer"}}))
	entries.XListType, entries.XListMapKeys = &keys, []string{"k"}
	words := listOf(props{Type: "string"})
	words.XListType = &set
	root := objectOf(map[string]props{"m": entries, "s": words, "l": listOf(props{Type: "integer"})})
	doc := func() map[string]any {
		l := make([]any, 2, 8) // spare capacity that an append could overwrite
		l[0], l[1] = int64(1), int64(2)
		return map[string]any{
			"m": append(make([]any, 0, 8), map[string]any{"k": "a", "v": int64(1)}), "s": append(make([]any, 0, 8), "x", "y"), "l": l,
		}
	}
	made := new(Builder).Build(&root, false)
	base, err := environment.Base()
	if err != nil {
		t.Fatal(err)
	}
	env, err := base.Extend(cel.CustomTypeProvider(Provider{Provider: base.CELTypeProvider(), Root: made}), cel.Variable("self", made.CEL()))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile("size(self.l + [3]) == 3 && size(self.s + ['z', 'x']) == 3 && (self.m + self.m) == self.m && self.l + self.l != self.l + [3, 4] && self.l.map(x, x + 1).all(x, !(x in [1]))")
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	document := doc()
	got, _, err := program.Eval(map[string]any{"self": made.Value(document)})
	if err != nil || got != types.True {
		t.Errorf("evaluate the expressions: %v, error %v; want true", got, err)
	}
	if !reflect.DeepEqual(document, doc()) || document["l"].([]any)[:3][2] != nil {
		t.Errorf("the document was modified: %v", document)
	}
}
