package jsonpatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	library "gopkg.in/evanphx/json-patch.v4"
)

func apply(document, patch string) (string, error) {
	p, err := Parse([]byte(patch))
	if err != nil {
		return "", err
	}
	changed, err := p.Apply(nil, []byte(document))
	return string(changed), err
}

// byLibrary applies a patch with the library that kube-apiserver uses. The library panics for some patches.
func byLibrary(document, patch string) (changed string, err error, panicked bool) {
	defer func() {
		if recover() != nil {
			panicked = true
		}
	}()
	p, err := library.DecodePatch([]byte(patch))
	if err != nil {
		return "", err, false
	}
	out, err := p.Apply([]byte(document))
	return string(out), err, false
}

const failure = "failure"

func examples() []struct{ document, patch, want string } {
	return []struct{ document, patch, want string }{
		{`{"a":1}`, `[]`, `{"a":1}`},
		{`{"b":1,"a":2}`, `[{"op":"add","path":"/c","value":{"y":1, "x":"<"}}]`, `{"a":2,"b":1,"c":{"y":1,"x":"\u003c"}}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/1","value":3},{"op":"add","path":"/a/-","value":4},{"op":"add","path":"/a/-1","value":5}]`, `{"a":[1,3,2,4,5]}`},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/-4","value":3}]`, failure},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/3","value":3}]`, failure},
		{`{"a":[1,2]}`, `[{"op":"add","path":"/a/x","value":3}]`, failure},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/0"},{"op":"remove","path":"/a/-1"}]`, `{"a":[]}`},
		{`{"a":[1,2]}`, `[{"op":"remove","path":"/a/2"}]`, failure},
		{`{"a":1}`, `[{"op":"remove","path":"/b"}]`, failure},
		{`{"a":1}`, `[{"op":"replace","path":"/b","value":1}]`, `{"a":1,"b":1}`},
		{`{"a":[1]}`, `[{"op":"replace","path":"/a/0"}]`, `{"a":[null]}`},
		{`{"a":[1]}`, `[{"op":"replace","path":"/a/1","value":1}]`, failure},
		{`{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}},{"op":"add","path":"/c","value":null}]`, `{"b":2,"c":null}`},
		{`{"a":1}`, `[{"op":"replace","path":"","value":1}]`, failure},
		{`{"a":1}`, `[{"op":"add","path":"","value":{}}]`, failure},
		{`{"a":{"b":1},"c":[]}`, `[{"op":"move","from":"/a/b","path":"/c/-"}]`, `{"a":{},"c":[1]}`},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, failure},
		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/a/c"},{"op":"add","path":"/a/c/d","value":1}]`, `{"a":{"b":1,"c":{"b":1,"d":1}}}`},
		{`{"a":{"b":1}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"add","path":"/c/d","value":1},{"op":"add","path":"/a/e","value":2}]`, `{"a":{"b":1,"e":2},"c":{"b":1,"d":1}}`},
		{`{"a":1}`, `[{"op":"copy","from":"/x","path":"/c"}]`, `{"a":1,"c":null}`},
		{`{"a~/b":1}`, `[{"op":"test","path":"/a~0~1b","value":1}]`, `{"a~/b":1}`},
		{`{"a":{"b":[1,{"c":null}]}}`, `[{"op":"test","path":"/a","value":{ "b": [1,{"c":null}]}}]`, `{"a":{"b":[1,{"c":null}]}}`},
		{`{"a":{"b":1}}`, `[{"op":"test","path":"","value":{"a":{"b":1}}}]`, `{"a":{"b":1}}`},
		{`{"a":{"b":1}}`, `[{"op":"test","path":"/a","value":{"c":1}}]`, failure},
		{`{"a":1}`, `[{"op":"test","path":"/a","value":1.0}]`, failure},
		{`{"a":1}`, `[{"op":"test","path":"/a"}]`, failure},
		{`{"a":null}`, `[{"op":"test","path":"/a","value":null},{"op":"test","path":"/b"}]`, `{"a":null}`},
		{`{"a":null}`, `[{"op":"add","path":"/a/b","value":1}]`, failure},
		{`{"a":1}`, `[{"op":"add","path":"/a/b","value":1}]`, failure},
		{`{"a":1}`, `[{"op":"add","path":"x/b","value":1}]`, `{"a":1,"b":1}`},
		{`{"a":1}`, `[{"path":"/a"}]`, failure},
		{`{"a":1}`, `[{"op":"add","value":1}]`, failure},
		{`{"a":1}`, `[{"op":"move","path":"/b"}]`, failure},
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	for _, tt := range examples() {
		got, err := apply(tt.document, tt.patch)
		if err != nil {
			got = failure
		}
		if got != tt.want {
			t.Errorf("%s + %s = %s, %v; want %s", tt.document, tt.patch, got, err, tt.want)
		}
		theirs, theirErr, panicked := byLibrary(tt.document, tt.patch)
		switch {
		case panicked:
		case (theirErr != nil) != (tt.want == failure) || theirErr == nil && theirs != tt.want:
			t.Errorf("%s + %s: the library returns %s, %v", tt.document, tt.patch, theirs, theirErr)
		case theirErr != nil && err != nil && err.Error() != theirErr.Error() && !strings.Contains(theirErr.Error(), "%!w"):
			t.Errorf("%s + %s: %v; the library returns %v", tt.document, tt.patch, err, theirErr)
		}
	}
}

// FuzzApply compares the results of Apply with those of the library that kube-apiserver uses.
func FuzzApply(f *testing.F) {
	library.AccumulatedCopySizeLimit = MaxCopied
	for _, tt := range examples() {
		f.Add(tt.document, tt.patch)
	}
	f.Fuzz(func(t *testing.T, document, patch string) {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(document), &members) != nil || members == nil || document[0] != '{' || !utf8.ValidString(document) || !utf8.ValidString(patch) {
			t.Skip()
		}
		compact, err := json.Marshal(json.RawMessage(document)) // the server encodes documents in this format
		if err != nil {
			t.Skip()
		}
		document = string(compact)
		want, wantErr, panicked := byLibrary(document, patch)
		if panicked {
			return
		}
		got, err := apply(document, patch)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%s + %s: %v; the library returns %v", document, patch, err, wantErr)
		}
		if err == nil && !same(got, want) {
			t.Fatalf("%s + %s = %s; the library returns %s", document, patch, got, want)
		}
	})
}

func same(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// TestLimits checks that a patch beyond the limits is rejected before it is applied. It measures
// allocations, so it is not parallel.
func TestLimits(t *testing.T) { // not parallel: it measures allocations
	doubling := func(n int) string {
		operations := make([]string, n)
		for i := range operations {
			operations[i] = fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/k%d"}`, i)
		}
		return "[" + strings.Join(operations, ",") + "]"
	}
	list := "[" + strings.Repeat("1,", 300_000) + "1]"
	tests := []struct {
		name, document, patch string
		want                  error
		allocated             uint64
	}{
		{"copies of copies", `{"data":{"a":"` + strings.Repeat("x", 1000) + `"}}`, doubling(22), ErrCopied, 32 << 20},
		{"copies within the limit", `{"data":{"a":"` + strings.Repeat("x", 1000) + `"}}`, doubling(10), nil, 32 << 20},
		{"copies of a large value", `{"data":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`, "[" + strings.Repeat(`{"op":"copy","from":"/data/a","path":"/data/b"},`, 9_999) + `{"op":"test","path":"/x"}]`, ErrCopied, 32 << 20},
		{"a long list's beginning", `{"data":` + list + `}`, "[" + strings.Repeat(`{"op":"add","path":"/data/0","value":1},`, 9_999) + `{"op":"test","path":"/x"}]`, ErrWork, 256 << 20},
		{"deep paths", strings.Repeat(`{"a":`, 9_000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 9_000), `[{"op":"test","path":"` + strings.Repeat("/a", 9_000) + `","value":1}]`, ErrWork, 256 << 20},
		{"tests of large text", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "[" + strings.Repeat(`{"op":"test","path":"/a","value":"x"},`, 9_999) + `{"op":"test","path":"/x"}]`, ErrTest, 32 << 20},
	}
	for _, tt := range tests {
		p, err := Parse([]byte(tt.patch))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = p.Apply(nil, []byte(tt.document))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > tt.allocated {
			t.Errorf("%s: %d bytes were allocated; want at most %d", tt.name, got, tt.allocated)
		}
	}
}
