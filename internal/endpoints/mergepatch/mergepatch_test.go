package mergepatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

func apply(document, patch string) (string, error) {
	p, err := Parse([]byte(patch))
	if err != nil {
		return "", err
	}
	changed, err := p.Apply(nil, []byte(document))
	return string(changed), err
}

func TestApply(t *testing.T) {
	t.Parallel()
	tests := []struct{ document, patch, want string }{
		// The examples in appendix A of RFC 7386 in which both document and patch are objects.
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// Unaffected bytes are copied unchanged.
		{`{"a": {"x" : 1.50, "y":[ 1 ]} , "b":"\"}{"}`, `{"b":"z"}`, `{"a": {"x" : 1.50, "y":[ 1 ]},"b":"z"}`},
		{`{"a":1,"b\"\\":2}`, ` { "b\"\\" : null , "\u0061" : 3 } `, `{"\u0061":3}`},
		{`{"a":{}}`, `{"a":[{"b":null,"c":[null,{"d":null}]}]}`, `{"a":[{"b":null,"c":[null,{"d":null}]}]}`},
		{`{"a":1}`, `{"a":[{"b":null,"c":[null,{"d":null}]}, null]}`, `{"a":[{"c":[null,{}]},null]}`},
		{`{"a":1}`, `{"a":2,"a":3,"b":1,"b":null}`, `{"a":3}`},
		{`{"a":9007199254740993}`, `{"b":9007199254740993.0}`, `{"a":9007199254740993,"b":9007199254740993.0}`},
	}
	for _, tt := range tests {
		got, err := apply(tt.document, tt.patch)
		if err != nil || got != tt.want {
			t.Errorf("%s + %s = %s, %v; want %s", tt.document, tt.patch, got, err, tt.want)
		}
	}
}

func TestSorted(t *testing.T) {
	t.Parallel()
	p, err := Parse([]byte(`{"b":{"y":{"n":null}},"c":1}`))
	if err != nil {
		t.Fatal(err)
	}
	got := string(p.Sorted([]byte(`{"c":{"z":1,"a":2}, "b":{"y":{"q":1,"p":2},"x":{"z":1,"a":2}},"a":0}` + "\n")))
	if want := `{"a":0,"b":{"x":{"z":1,"a":2},"y":{"p":2,"q":1}},"c":{"z":1,"a":2}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNotObjects(t *testing.T) {
	t.Parallel()
	for _, patch := range []string{`null`, `[]`, `"a"`, `1`, ` true`} {
		if _, err := apply(`{}`, patch); !errors.Is(err, ErrNotObject) {
			t.Errorf("patch %s: %v", patch, err)
		}
	}
	for _, document := range []string{``, ` `, `null`, `[]`} {
		if _, err := apply(document, `{}`); !errors.Is(err, ErrNotObject) {
			t.Errorf("document %q: %v", document, err)
		}
	}
	for _, patch := range []string{``, `{`, `{"a":}`, `{} {}`, strings.Repeat(`{"a":`, 20_000)} {
		if _, err := apply(`{}`, patch); err == nil || errors.Is(err, ErrNotObject) {
			t.Errorf("patch %.20q: %v", patch, err)
		}
	}
}

// FuzzApply compares the results of Apply with those of the library that kube-apiserver uses.
func FuzzApply(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":null}],"d":"\u00e4\\\""}}`, `{"a":{"b":null,"e":{"f":[null,{"g":null}]}},"h":1e3}`)
	f.Add(`{"a":null,"b":{}}`, `{"a":{"b":1},"b":{"c":{"d":null}}}`)
	f.Fuzz(func(t *testing.T, document, patch string) {
		if !strings.HasPrefix(document, "{") || !json.Valid([]byte(document)) || !utf8.ValidString(document) || !utf8.ValidString(patch) || strings.Contains(document, `\u`) || twice(document) {
			t.Skip()
		}
		got, err := apply(document, patch)
		want, wantErr := jsonpatch.MergePatch([]byte(document), []byte(patch))
		if err != nil || wantErr != nil {
			if (err != nil) != (wantErr != nil) && strings.HasPrefix(strings.TrimSpace(patch), "{") {
				t.Fatalf("%s + %s: %v; want the error of the library, %v", document, patch, err, wantErr)
			}
			return
		}
		if !json.Valid([]byte(got)) || !reflect.DeepEqual(decoded(got), decoded(string(want))) {
			t.Fatalf("%s + %s = %s; the library returns %s", document, patch, got, want)
		}
	})
}

// twice reports whether a generated document has a duplicate member. It also returns true for invalid JSON.
func twice(document string) bool {
	compact := &bytes.Buffer{}
	if err := json.Compact(compact, []byte(document)); err != nil {
		return true
	}
	encoded, err := json.Marshal(decoded(document))
	return err != nil || len(encoded) < compact.Len()
}

func decoded(text string) (v any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

func BenchmarkApply(b *testing.B) {
	document := &bytes.Buffer{}
	document.WriteString(`{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{"containers":[`)
	for i := range 20 {
		fmt.Fprintf(document, `{"name":"c%d","image":"registry.example.com/web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}]},`, i)
	}
	document.WriteString(`{}]}}`)
	patch := []byte(`{"metadata":{"labels":{"app":"other","tier":null}}}`)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := Parse(patch)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Apply(make([]byte, 0, document.Len()+len(patch)), document.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := jsonpatch.MergePatch(document.Bytes(), patch); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestCost checks that the time of a patch grows linearly with its size. With quadratic growth,
// each of these patches would take minutes.
func TestCost(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&many, `,"k%d":1`, i)
	}
	deep := strings.Repeat("[", 9_000) + `"` + strings.Repeat("x", 1<<20) + `",null` + strings.Repeat("]", 9_000)
	alternating := strings.Repeat(`[{"a":`, 4_500) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}]", 4_500)
	deepObject := strings.Repeat(`{"a":`, 9_000) + "{" + many.String()[1:] + "}" + strings.Repeat("}", 9_000)
	for _, tt := range []struct{ document, patch string }{
		{`{"a":{"x":1}}`, `{"a":{"x":1` + many.String() + "}}"},
		{`{"a":{"x":1` + many.String() + "}}", `{"a":{"x":1` + many.String() + "}}"},
		{`{"a":[]}`, `{"a":{"b":` + deep + `}}`},
		{`{"b":1}`, `{"a":[],"b":[` + deep + `]}`},
		{`{"b":1}`, `{"a":` + alternating + `}`},
		{deepObject, deepObject},
	} {
		p, err := Parse([]byte(tt.patch))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := p.Apply(nil, []byte(tt.document))
		if err != nil {
			t.Fatal(err)
		}
		p.Sorted(changed)
	}
}
