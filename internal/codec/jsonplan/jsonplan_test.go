package jsonplan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"mainstay.dev/mainstay/internal/codec/codectest"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

type protobufMessage interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// check compares the encoding of an object with that of encoding/json, before and after a round trip.
func check(t *testing.T, obj any) {
	t.Helper()
	want, wantErr := json.Marshal(obj)
	got, err := jsonplan.Append([]byte("before"), obj)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%T: error %v; want %v", obj, err, wantErr)
	}
	got, want = sameReplacement(got), sameReplacement(want)
	if err == nil && string(got) != "before"+string(want) {
		t.Fatalf("%T:\n got %s\nwant before%s", obj, got, want)
	}
	readBack, ok := jsonplan.AppendReadBack(nil, obj)
	message, isMessage := obj.(protobufMessage)
	if !ok || !isMessage {
		return
	}
	wire, err := message.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	if err := again.(protobufMessage).Unmarshal(wire); err != nil {
		t.Fatal(err)
	}
	if o, ok := again.(runtime.Object); ok {
		o.GetObjectKind().SetGroupVersionKind(obj.(runtime.Object).GetObjectKind().GroupVersionKind())
	}
	if want, err = json.Marshal(again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sameReplacement(readBack), sameReplacement(want)) {
		t.Fatalf("%T read back:\n got %s\nwant %s", obj, readBack, want)
	}
}

// sameReplacement replaces the escape sequence for invalid UTF-8 with the replacement character.
// encoding/json writes the escape sequence up to Go 1.26, and the character from Go 1.27 on.
func sameReplacement(encoding []byte) []byte {
	return bytes.ReplaceAll(encoding, []byte(`\ufffd`), []byte("\ufffd"))
}

// kinds returns all types of client-go's scheme.
func kinds() []reflect.Type {
	seen := map[reflect.Type]bool{}
	var types []reflect.Type
	for _, t := range scheme.Scheme.AllKnownTypes() {
		if !seen[t] && t.Kind() == reflect.Struct {
			seen[t] = true
			types = append(types, t)
		}
	}
	sort.Slice(types, func(i, j int) bool {
		return types[i].PkgPath()+types[i].Name() < types[j].PkgPath()+types[j].Name()
	})
	return types
}

// fixtures returns, as JSON, an object of every kind in k8s.io/api.
func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	found, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/api/core/v1").Output()
	if err != nil {
		t.Fatalf("find the module k8s.io/api: %v", err)
	}
	types := strings.TrimSpace(string(found))
	files, err := filepath.Glob(filepath.Join(types, "../../testdata/HEAD/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures beside %s: %v", types, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// few returns n, or n/10 with -short.
func few(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

func TestAppendEqualsEncodingJSON(t *testing.T) {
	t.Parallel()
	for name, body := range fixtures(t) {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if runtime.IsNotRegisteredError(err) || strings.Contains(name, "WatchEvent") {
			continue // never sent by clients
		}
		if err != nil {
			t.Fatalf("decode the fixture %s: %v", name, err)
		}
		check(t, obj)
	}
}

func TestAppendOfRandomObjects(t *testing.T) {
	t.Parallel()
	for i, kind := range kinds() {
		for seed := range few(30) {
			filled := reflect.New(kind)
			codectest.Fill(rand.New(rand.NewPCG(uint64(i), uint64(seed))), filled.Elem())
			check(t, filled.Interface())
		}
	}
}

type odd struct {
	metav1.TypeMeta `json:",inline"`
	*hidden
	Number  int             `json:"number,string"`
	Nothing map[string]bool `json:"nothing"`
}

type hidden struct{ A int }

type unusual struct {
	F32   float32            `json:"f32"`
	F64   *float64           `json:"f64,omitempty"`
	Array [2]string          `json:"array"`
	Keyed map[int]string     `json:"keyed,omitempty"`
	Plain map[string]float64 `json:"plain"`
	Any   any                `json:"any,omitempty"`
	Zero  metav1.Time        `json:"zero,omitzero"`
	Both  []int              `json:"both,omitempty,omitzero"`
	U     uint8              `json:"u,omitempty"`
	Skip  int                `json:"-"`
	//lint:ignore SA5008 encoding/json names this member "-"
	Dash  int `json:"-,"`
	Name  string
	small int
}

func TestAppendOfUnusualTypes(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{0, 1, -1.5, 1e-7, 1e-6, 123456789e-20, 1e20, 1e21, -2e300, 3.0000001} {
		check(t, &unusual{F32: float32(f), F64: &f, Keyed: map[int]string{3: "x", 1: "<"}, Plain: map[string]float64{"b": f, "a": -f}, Any: f, small: 1})
	}
	check(t, &unusual{Any: []any{map[string]any{"z": nil, "<a>": []any{true, int64(3), 1.5, "x\u2028"}}, int32(3), uint8(1), json.Number("7")}})
	check(t, &unusual{Any: json.RawMessage(` { "a" : "<" } `)})
	check(t, &unusual{Any: json.RawMessage(`{`)})
	check(t, &odd{Number: 3})
	check(t, (*unusual)(nil))
	check(t, unusual{})
	check(t, &unstructured.Unstructured{Object: map[string]any{"kind": "A", "apiVersion": "v1", "b": map[string]any{}, "a": []any{}}})
	check(t, &unstructured.Unstructured{})
	check(t, &metav1.Table{Rows: []metav1.TableRow{{Cells: []any{"a", nil, int64(1)}, Object: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{}}}}})
}

func TestAppendOfManagedFields(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"", "null", "{}", `{"f:a":{}}`, `{"f:a":{"f:b":{},"f:c":{".":{}}},"k:{\"name\":\"a\"}":{}}`, `{"a":{}}x`, `{"a":{}`, `{"a":{},}`,
		`{"a" :{}}`, ` {}`, `{"a":1}`, `{"a":{"<":{}}}`, `{"é":{}}`, "{\"\u2028\":{}}", `{"\u003c":{}}`, "\xa0", `{"a":{}}}`, `{{}}`, `{"a"}`, `{"a":}`,
		`{"a\\":{}}`, `{"a\":{}}`, `{"\x":{}}`, `{,}`, `{"a":{},"b"}`, strings.Repeat(`{"a":`, 2000) + "{}" + strings.Repeat("}", 2000), "{}{}", "{},{}",
	} {
		check(t, &metav1.ManagedFieldsEntry{FieldsV1: metav1.NewFieldsV1(raw)})
	}
}

// FuzzAppend checks that arbitrary strings, managed fields and field values are encoded as by
// encoding/json.
func FuzzAppend(f *testing.F) {
	f.Add("plain text of more than eight bytes", "{}", uint64(1), 3)
	f.Add("<&>\"\\\b\f\n\r\t\x00\x7f\u2028\u2029\xff\xc3é", `{"f:a":{"k:{\"a\":1}":{}}}`, uint64(2), 77)
	all := kinds()
	f.Fuzz(func(t *testing.T, text, fields string, seed uint64, kind int) {
		check(t, &metav1.ObjectMeta{Name: text, Labels: map[string]string{text: text},
			ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(fields)}}})
		filled := reflect.New(all[uint(kind)%uint(len(all))])
		codectest.Fill(rand.New(rand.NewPCG(seed, 0)), filled.Elem())
		check(t, filled.Interface())
	})
}
