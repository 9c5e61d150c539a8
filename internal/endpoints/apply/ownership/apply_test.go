package ownership

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/codec"
)

// TestApplyAsUpstream performs random applies and other writes of all kinds. It compares the objects and
// managed fields with the results of apimachinery.
func TestApplyAsUpstream(t *testing.T) {
	t.Parallel()
	for _, f := range allFixtures(t) {
		t.Run(f.gvk.String(), func(t *testing.T) {
			t.Parallel()
			seed := seedOf(t)
			w := &writer{f: f, paths: pathsOf(t, f), mutator: mutator{rand.New(rand.NewPCG(seed, 1))}}
			a := &applier{writer: w}
			for i := range steps() {
				if w.live == nil || w.one(3) {
					w.update(t)
				} else {
					a.apply(t)
				}
				if t.Failed() {
					t.Fatalf("seed %d, step %d", seed, i)
				}
			}
			t.Logf("%d of %d applies are covered, %d conflicts, %d invalid", a.covered, a.applied, a.conflicts, a.invalid)
		})
	}
}

type applier struct {
	*writer
	applied, covered, conflicts, invalid int
	last                                 map[string]any
}

// apply applies a changed part of the live object with both implementations.
func (a *applier) apply(t *testing.T) {
	p := a.paths[a.IntN(len(a.paths))]
	live := a.live
	if a.one(20) {
		live = a.f.empty()
	}
	config := a.configuration(t)
	if a.last != nil && a.one(3) {
		config = (&unstructured.Unstructured{Object: a.last}).DeepCopy()
		a.omit(config.Object, 3)
		named(config, a.f)
	}
	a.last = config.DeepCopy().Object
	manager, force := fmt.Sprint("applier-", a.IntN(2)), !a.one(3)
	if a.one(10) {
		manager = "kubectl"
	}
	live = a.form(t, live)
	liveBefore, configBefore := copyOf(live), config.DeepCopy()
	have := p.ours.Apply(live, config, manager, force)
	theirs, err := p.theirs.Apply(copyOf(live), config.DeepCopy(), manager, force)
	if diff := cmp.Diff(liveBefore, live) + cmp.Diff(configBefore, config); diff != "" {
		t.Fatalf("Apply changed its arguments: %s", diff)
	}
	if err != nil {
		if have != nil {
			t.Fatalf("applied despite the upstream error %v", err)
		}
		if force {
			a.invalid++
		} else {
			a.conflicts++
		}
		return
	}
	a.applied++
	want := p.ours.Refill(live, theirs.(codec.Object), config, manager)
	if have != nil {
		a.covered++
		if diff := cmp.Diff(show(t, want.GetManagedFields()), show(t, have.GetManagedFields())); diff != "" {
			t.Errorf("%s: -apimachinery +ours: %s\nlive %s\nconfig %s", p.name, diff, dump(liveBefore), dump(config.Object))
		}
		have.SetManagedFields(want.GetManagedFields())
		if diff := cmp.Diff(a.asSent(t, want), a.asSent(t, have), sameNumbers()); diff != "" {
			t.Errorf("%s: object -apimachinery +ours: %s\nlive %s\nconfig %s", p.name, diff, dump(liveBefore), dump(config.Object))
		}
	}
	a.follow(want)
}

// asSent returns an object as clients receive it. An object decoded from a document lacks empty lists and
// fractions of seconds, because they are not encoded.
func (w *writer) asSent(t *testing.T, obj codec.Object) codec.Object {
	t.Helper()
	if w.f.untyped {
		return obj
	}
	sent := w.f.new()
	if err := json.Unmarshal([]byte(dump(obj)), sent); err != nil {
		t.Fatal(err)
	}
	return sent
}

// follow sets the live object.
func (w *writer) follow(obj codec.Object) {
	if obj = w.typed(obj); obj == nil {
		w.live = nil
		return
	}
	obj.GetObjectKind().SetGroupVersionKind(w.f.gvk)
	w.live = obj
	if obj.GetUID() == "" && !w.one(10) {
		obj.SetUID("x")
	}
	fields := obj.GetManagedFields()
	for i := range fields {
		fields[i].Time = &metav1.Time{Time: time.Unix(int64(w.IntN(4)), int64(w.IntN(1000))).UTC()}
		if w.one(10) {
			fields[i].Time = nil
		}
	}
}

// configuration returns an applied configuration that contains a changed part of the live object.
func (a *applier) configuration(t *testing.T) *unstructured.Unstructured {
	obj := copyOf(a.live)
	if a.one(4) {
		obj = copyOf(a.f.obj)
	}
	if a.one(8) {
		obj = a.f.empty()
	}
	a.mutate(obj, a.IntN(5))
	obj.SetManagedFields(nil)
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	config := &unstructured.Unstructured{}
	content := map[string]any{}
	if _, err := codec.UnmarshalDocument(text, &content); err != nil {
		t.Fatal(err)
	}
	config.Object = content
	a.omit(content, []int{2, 3, 10, 1000}[a.IntN(4)])
	named(config, a.f)
	return config
}

func named(config *unstructured.Unstructured, f fixture) {
	config.SetGroupVersionKind(f.gvk)
	config.SetName("name")
}

// omit removes about one in n entries at each level of a document.
func (a *applier) omit(m map[string]any, n int) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v := m[name]
		if a.one(n) && name != "name" && name != "type" && name != "uid" && name != "ip" && name != "containerPort" {
			delete(m, name)
			continue
		}
		switch v := v.(type) {
		case map[string]any:
			a.omit(v, n+1)
		case []any:
			m[name] = a.omitItems(v, n+1)
		}
		if a.one(100) {
			m[name] = nil
		}
	}
}

func (a *applier) omitItems(list []any, n int) []any {
	var left []any
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			a.omit(m, n+2)
		}
		if !a.one(2 * n) {
			left = append(left, item)
		}
	}
	if left == nil {
		return []any{}
	}
	return left
}

// TestParse checks the parser with unusual encodings of sets.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{}`, `{}`},
		{`{"f:a":{}}`, `{"f:a":{}}`},
		{` { "f:b" : {} , "f:a":{"f:c":{},".":{}}}`, `{"f:a":{".":{},"f:c":{}},"f:b":{}}`},
		{`{"f:a":{"k:{\"b\":1,\"a\":\"x\"}":{".":{},"f:a":{}}}}`, `{"f:a":{"k:{\"a\":\"x\",\"b\":1}":{".":{},"f:a":{}}}}`},
		{`{"f:a":{"v:\"b\"":{},"v:\"a\"":{},"v:10":{},"v:9":{},"v:true":{}}}`, `{"f:a":{"v:9":{},"v:10":{},"v:\"a\"":{},"v:\"b\"":{},"v:true":{}}}`},
		{`{"f:a":{"i:10":{},"i:9":{}}}`, `{"f:a":{"i:9":{},"i:10":{}}}`},
		{`{"f:a":{"x:unknown":{}}}`, `{"f:a":{}}`},
		{`{"f:\u00e4\n":{}}`, "{\"f:ä\\n\":{}}"},
		{`{"f:":{}}`, `{"f:":{}}`},
	} {
		set, err := parse([]byte(c.text))
		if err != nil {
			t.Errorf("parse %s: %v", c.text, err)
			continue
		}
		var e encoder
		if got := string(e.encode(set.nodes)); got != c.want || string(set.text) != c.want {
			t.Errorf("%s was parsed as %s, encoded as %s, want %s", c.text, set.text, got, c.want)
		}
	}
	for _, text := range []string{``, `{`, `[]`, `{"f:a":{}} x`, `{"a":{}}`, `{"k:{":{}}`} {
		if set, err := parse([]byte(text)); err != errMalformed {
			t.Errorf("%s was parsed as %v, %v", text, set, err)
		}
	}
}

// FuzzParse compares the parser with fieldpath.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"f:a":{".":{},"f:b":{}},"f:c":{}}`, `{"f:a":{"k:{\"name\":\"x\",\"port\":80}":{".":{},"f:a":{}}}}`,
		`{"f:a":{"v:\"a\"":{},"v:-1":{},"v:true":{},"i:3":{}}}`, `{"v:1e3":{},"v:\"\\u003c\"":{},"v:00":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parse(text)
		want, wantErr := canonical(text)
		switch {
		case err == errMalformed && wantErr == nil:
			t.Fatalf("%q is not malformed", text)
		case err != nil:
		case wantErr != nil:
			t.Fatalf("%q is malformed: %v", text, wantErr)
		default:
			var e encoder
			if got := e.encode(set.nodes); !bytes.Equal(set.text, want) || !bytes.Equal(got, want) {
				t.Fatalf("%q was parsed as %q, encoded as %q, want %q", text, set.text, got, want)
			}
		}
	})
}

// sameNumbers treats 1 and 1.0 as equal, because JSON does not distinguish between them.
func sameNumbers() cmp.Option {
	value := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	numbers := func(a, b any) bool {
		_, first := value(a)
		_, second := value(b)
		return first && second
	}
	return cmp.FilterValues(numbers, cmp.Comparer(func(a, b any) bool {
		x, _ := value(a)
		y, _ := value(b)
		return x == y
	}))
}
