package endpoints

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"mainstay.dev/mainstay/internal/codec"
)

const patchedPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns","uid":"u","labels":{"a":"1","b":"2"},
"creationTimestamp":"2026-01-02T03:04:05Z","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"o"}]},
"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100m"}}}],"nodeName":"n"},
"status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"},{"type":"Initialized","status":"True"}]}}`

// TestPatchOfAPart checks that patching a part of an object has the same result as patching the
// whole object.
func TestPatchOfAPart(t *testing.T) {
	t.Parallel()
	v := &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), New: func() codec.Object { return &corev1.Pod{} }}
	schema, err := strategicpatch.NewPatchMetaFromStruct(v.New())
	if err != nil {
		t.Fatal(err)
	}
	for patch, ofPart := range map[string]bool{
		`{"metadata":{"labels":{"a":null,"c":"3"}}}`:                                  true,
		`{"metadata":null}`:                                                           true,
		`{"metadata":{"unknown":1}}`:                                                  true,
		`{"metadata":{"labels":7}}`:                                                   true,
		`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`:                true,
		`{"status":{"$patch":"replace","phase":"Running"}}`:                           true,
		`{"spec":{"containers":[{"name":"c","image":"j"},{"name":"d"}]},"status":{}}`: true,
		`{"spec":null}`: true,
		`{}`:            true,
		`{"unknown":1}`: true,
		`{"apiVersion":"v2","metadata":{"labels":{"a":"2"}}}`: true,
		`{"kind":"Node"}`:                       true,
		`{"$patch":"delete"}`:                   false,
		`{"$retainKeys":["spec"],"spec":{}}`:    false,
		`{"metadata":{},"spec":{},"status":{}}`: false,
	} {
		t.Run(patch, func(t *testing.T) {
			t.Parallel()
			obj := &corev1.Pod{}
			if err := json.Unmarshal([]byte(patchedPod), obj); err != nil {
				t.Fatal(err)
			}
			before := obj.DeepCopy()
			merge, err := parseMergePatch([]byte(patch), "Warn")
			if err != nil {
				t.Fatal(err)
			}
			if _, some := partOf(v, obj, merge.members()); some != ofPart {
				t.Errorf("patched a part: %t", some)
			}
			for kind, both := range map[string]func(patch map[string]any) (got, want []any){
				"merge": func(map[string]any) (got, want []any) {
					changed, strict, err := changeByDocument(v, obj, merge, "Warn")
					whole, strictToo, errToo := changeDocument(v, obj, merge, "Warn")
					return outcome(changed, strict, err), outcome(whole, strictToo, errToo)
				},
				"strategic": func(members map[string]any) (got, want []any) {
					changed, strict, err := mergeInto(v, obj, members, schema, true)
					whole, strictToo, errToo := mergeIntoWhole(v, obj, members, schema, true)
					return outcome(changed, strict, err), outcome(whole, strictToo, errToo)
				},
			} {
				var members map[string]any
				if _, err := decodePatch([]byte(patch), &members, "Warn"); err != nil {
					t.Fatal(err)
				}
				if got, want := both(members); !cmp.Equal(got, want) {
					t.Errorf("%s: a partial and a complete merge differ (-complete +partial):\n%s", kind, cmp.Diff(want, got))
				}
				if !cmp.Equal(before, obj) {
					t.Errorf("%s: the patch modified the original object", kind)
				}
			}
		})
	}
}

// outcome returns the parts of a result that must be equal for patches of a part and of the whole object.
func outcome(obj codec.Object, strict []error, err error) []any {
	if err != nil {
		return []any{err.Error()}
	}
	all := []any{obj}
	for _, found := range strict {
		all = append(all, found.Error())
	}
	return all
}
