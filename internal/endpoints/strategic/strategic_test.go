package strategic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func schemaOf(t testing.TB, v any) Schema {
	t.Helper()
	schema, err := strategicpatch.NewPatchMetaFromStruct(v)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// outcome is the result of a merge.
type outcome struct {
	merged   map[string]any
	failed   bool
	panicked bool
	message  string
}

func try(merge func(original, patch map[string]any, schema Schema) (map[string]any, error), original, patch map[string]any, schema Schema) (o outcome) {
	defer func() {
		if reason := recover(); reason != nil {
			o = outcome{failed: true, panicked: true, message: fmt.Sprint(reason)}
		}
	}()
	merged, err := merge(apiruntime.DeepCopyJSON(original), apiruntime.DeepCopyJSON(patch), schema)
	if err != nil {
		return outcome{failed: true, message: err.Error()}
	}
	return outcome{merged: merged}
}

func byLibrary(original, patch map[string]any, schema Schema) (map[string]any, error) {
	return strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(original, patch, schema)
}

func TestMerge(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t, corev1.Pod{})
	const containers = `{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"2"},{"name":"c","image":"3"}]}}`
	for _, tt := range []struct{ original, patch, want string }{
		{containers, `{"spec":{"containers":[{"name":"b","image":"4"}]}}`, `{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"4"},{"name":"c","image":"3"}]}}`},
		{containers, `{"spec":{"containers":[{"name":"d","image":"4"}]}}`, `{"spec":{"containers":[{"name":"d","image":"4"},{"name":"a","image":"1"},{"name":"b","image":"2"},{"name":"c","image":"3"}]}}`},
		{containers, `{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`, `{"spec":{"containers":[{"name":"b","image":"2"},{"name":"c","image":"3"}]}}`},
		{containers, `{"spec":{"containers":[{"$patch":"replace"},{"name":"z"}]}}`, `{"spec":{"containers":[{"name":"z"}]}}`},
		{containers, `{"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"b","image":"2"},{"name":"c","image":"3"},{"name":"a","image":"1"}]}}`},
		{`{"metadata":{"finalizers":["a","b","c"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["b"]}}`, `{"metadata":{"finalizers":["a","c"]}}`},
		{`{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["b"],"finalizers":["c"]}}`, `{"metadata":{"finalizers":["c","a"]}}`},
		{`{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}`, `{"spec":{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/"}}]}}`, `{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}`},
		{`{"spec":{"tolerations":[{"key":"a"}]}}`, `{"spec":{"tolerations":[{"key":"b"}]}}`, `{"spec":{"tolerations":[{"key":"b"}]}}`},
	} {
		var original, patch map[string]any
		if err := json.Unmarshal([]byte(tt.original), &original); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tt.patch), &patch); err != nil {
			t.Fatal(err)
		}
		got := try(Merge, original, patch, schema)
		text, err := json.Marshal(got.merged)
		if err != nil || !jsonEqual(string(text), tt.want) {
			t.Errorf("%s + %s = %s %s; want %s", tt.original, tt.patch, text, got.message, tt.want)
		}
	}
}

func jsonEqual(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TestMergesAsTheLibrary compares the results, including the order of elements, with those of package
// strategicpatch of apimachinery.
// It uses random pods, and valid and invalid patches with all directives.
func TestMergesAsTheLibrary(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t, corev1.Pod{})
	failed, rounds := 0, 8_000
	if testing.Short() {
		rounds = 1_000
	}
	for seed := range rounds {
		compare(t, schema, uint64(seed), &failed)
	}
	if failed == 0 || failed > rounds*3/4 {
		t.Errorf("%d of %d patches were rejected, so too few were tested", failed, rounds)
	}
}

func FuzzMerge(f *testing.F) {
	schema := schemaOf(f, corev1.Pod{})
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { compare(t, schema, seed, new(int)) })
}

func compare(t *testing.T, schema Schema, seed uint64, failed *int) {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	original, patch := g.pod(false), g.pod(true)
	got, want := try(Merge, original, patch, schema), try(byLibrary, original, patch, schema)
	if want.failed {
		*failed++
	}
	if got.failed != want.failed || !reflect.DeepEqual(got.merged, want.merged) {
		a, _ := json.Marshal(original)
		b, _ := json.Marshal(patch)
		x, _ := json.Marshal(got.merged)
		y, _ := json.Marshal(want.merged)
		t.Fatalf("seed %d:\n%s\n%s\ngot  %s %s\nwant %s %s", seed, a, b, x, got.message, y, want.message)
	}
}

// generator creates documents of pods and patches for them.
type generator struct{ *rand.Rand }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }
func (g generator) name() string            { return string(rune('a' + g.IntN(6))) }

func (g generator) pod(patch bool) map[string]any {
	pod := map[string]any{"metadata": g.metadata(patch), "spec": g.spec(patch)}
	if patch && g.chance(3) {
		pod["$patch"] = []any{"replace", "delete", "nonsense"}[g.IntN(3)]
	}
	return pod
}

func (g generator) metadata(patch bool) map[string]any {
	m := map[string]any{"name": g.name()}
	g.texts(m, "finalizers", patch)
	if g.chance(40) {
		labels := map[string]any{}
		for range g.IntN(4) {
			labels[g.name()] = g.scalar(patch)
		}
		if patch && g.chance(10) {
			labels["$patch"] = "replace"
		}
		m["labels"] = labels
	}
	g.objects(m, "ownerReferences", "uid", patch, nil)
	return m
}

func (g generator) spec(patch bool) map[string]any {
	m := map[string]any{}
	g.objects(m, "containers", "name", patch, func(c map[string]any) {
		g.objects(c, "env", "name", patch, nil)
		g.objects(c, "ports", "containerPort", patch, nil)
		g.texts(c, "args", patch)
	})
	g.objects(m, "volumes", "name", patch, func(v map[string]any) {
		kind := []string{"emptyDir", "hostPath", "secret"}[g.IntN(3)]
		v[kind] = map[string]any{"x": g.name()}
		if patch && g.chance(50) {
			v["$retainKeys"] = []any{"name", kind, "value"}
		}
	})
	g.objects(m, "tolerations", "key", patch, nil)
	return m
}

func (g generator) scalar(patch bool) any {
	if patch && g.chance(15) {
		return nil
	}
	return g.name()
}

// texts sets a member to a list of strings or, in a patch, a directive for the list.
func (g generator) texts(m map[string]any, key string, patch bool) {
	list := func() []any {
		list := []any{}
		for range g.IntN(8) {
			list = append(list, g.name())
		}
		return list
	}
	switch {
	case patch && g.chance(25):
		m["$deleteFromPrimitiveList/"+key] = list()
		return
	case patch && g.chance(25):
		m["$setElementOrder/"+key] = list()
	}
	if g.chance(70) {
		m[key] = list()
	}
	if patch && g.chance(5) {
		m[key] = g.scalar(true)
	}
}

// objects sets a member to a list of objects with a merge key and, in a patch, directives for the list.
func (g generator) objects(m map[string]any, key, mergeKey string, patch bool, more func(map[string]any)) {
	if g.chance(20) {
		return
	}
	keyed := func() map[string]any {
		if mergeKey == "containerPort" {
			return map[string]any{mergeKey: int64(g.IntN(6))}
		}
		return map[string]any{mergeKey: g.name()}
	}
	list := []any{}
	n := g.IntN(5)
	if g.chance(5) {
		n = 40 // too many for sort.SliceStable to use only insertion sort
	}
	for range n {
		object := keyed()
		object["value"] = g.scalar(patch)
		if more != nil {
			more(object)
		}
		if patch && g.chance(12) {
			object["$patch"] = []any{"delete", "delete", "replace", "merge"}[g.IntN(4)]
		}
		if g.chance(1) {
			delete(object, mergeKey)
		}
		list = append(list, object)
	}
	if patch && g.chance(35) {
		order := []any{}
		seen := map[any]bool{}
		for _, element := range list { // mostly a valid order, with the elements in the order of the patch and other keys in between
			id := element.(map[string]any)[mergeKey]
			if g.chance(30) {
				order = append(order, keyed())
			}
			if !seen[id] && element.(map[string]any)["$patch"] == nil {
				order = append(order, map[string]any{mergeKey: id})
			}
			seen[id] = true
		}
		for range g.IntN(4) {
			order = append(order, keyed())
		}
		m["$setElementOrder/"+key] = order
		if g.chance(20) {
			return
		}
	}
	m[key] = list
}

// TestUnique compares unique with the algorithm of the library, which removes elements one at a time.
func TestUnique(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		list := make([]any, r.IntN(20))
		for i := range list {
			list[i] = r.IntN(6)
		}
		want := append([]any{}, list...)
		for i := 0; i < len(want)-1; i++ {
			for j := i + 1; j < len(want); j++ {
				if want[i] == want[j] {
					want[j] = want[len(want)-1]
					want = want[:len(want)-1]
					j--
				}
			}
		}
		if got := unique(append([]any{}, list...)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v: got %v, want %v", list, got, want)
		}
	}
}

// TestCost checks that tens of thousands of elements are merged quickly, in memory that grows linearly with
// their number. With the library, each of these cases would take too long.
func TestCost(t *testing.T) { // not parallel: it measures allocations
	schema := schemaOf(t, corev1.Pod{})
	const n = 30_000
	objects := func(first int, more string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"name":"c%d"%s}`, first+i, more)
		}
		return "[" + b.String()[1:] + "]"
	}
	texts := strings.Repeat(`"a","b",`, n) + `"c"`
	var many strings.Builder
	for i := range n {
		fmt.Fprintf(&many, `,"f%d"`, i)
	}
	for name, tt := range map[string]struct{ original, patch string }{
		"the same":     {`{"spec":{"containers":` + objects(0, "") + `}}`, `{"spec":{"containers":` + objects(0, `,"image":"i"`) + `}}`},
		"others":       {`{"spec":{"containers":` + objects(0, "") + `}}`, `{"spec":{"containers":` + objects(n, "") + `}}`},
		"in order":     {`{"spec":{"containers":` + objects(0, "") + `}}`, `{"spec":{"$setElementOrder/containers":` + objects(n/2, "") + `,"containers":` + objects(n/2, "") + `}}`},
		"deletions":    {`{"spec":{"containers":` + objects(0, "") + `}}`, `{"spec":{"containers":` + objects(0, `,"$patch":"delete"`) + `}}`},
		"duplicates":   {`{"metadata":{"finalizers":["x"]}}`, `{"metadata":{"finalizers":[` + texts + `]}}`},
		"no duplicate": {`{"metadata":{"finalizers":["x"]}}`, `{"metadata":{"finalizers":[` + many.String()[1:] + `]}}`},
	} {
		var original, patch map[string]any
		if err := json.Unmarshal([]byte(tt.original), &original); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tt.patch), &patch); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Merge(original, patch, schema); err != nil {
			t.Errorf("merge %s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 512<<20 {
			t.Errorf("%s: %d bytes were allocated", name, got)
		}
	}
}
