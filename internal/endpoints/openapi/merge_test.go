package openapi

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// BenchmarkTypeOfOneKind measures the first apply of the largest kind, with an empty cache of
// decoded schemas.
func BenchmarkTypeOfOneKind(b *testing.B) {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}
	var kept []managedfields.TypeConverter
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for b.Loop() {
		c := NewTypeConverter()
		if _, err := c.ObjectToTyped(obj); err != nil {
			b.Fatal(err)
		}
		kept = append(kept, c)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(kept)), "kept-B/op")
	runtime.KeepAlive(kept)
}

func TestTypeConverterDefaultsKeys(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Spec:     corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}},
	}
	value, err := NewTypeConverter().ObjectToTyped(pod)
	if err != nil {
		t.Fatal(err)
	}
	set, err := value.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	const want = `.spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].containerPort`
	if !strings.Contains(set.String(), want) {
		t.Errorf("fields %s\nlack %s", set, want)
	}
}

// upstreamConverter returns the type converter of managedfields for all schemas.
func upstreamConverter(t *testing.T) managedfields.TypeConverter {
	t.Helper()
	l := openLibrary(modelsFile)
	f := inflater{library: l}
	models := map[string]*spec.Schema{}
	for i := range l.size {
		data, err := f.schema(i, v3)
		if err != nil {
			t.Fatal(err)
		}
		s := &spec.Schema{}
		if err := json.Unmarshal(data, s); err != nil {
			t.Fatalf("schema of %s: %v", l.name(i), err)
		}
		models[l.name(i)] = s
	}
	c, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fixtures returns the test objects of k8s.io/api, one for each kind.
func fixtures(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("find k8s.io/api: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		if strings.HasSuffix(file, ".WatchEvent.json") {
			continue // not an object
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatalf("decode the fixture %s: %v", file, err)
		}
		objects = append(objects, u)
	}
	if len(objects) < 100 {
		t.Fatalf("%d fixtures, which is too few", len(objects))
	}
	return objects
}

// TestTypeConverterAsUpstream compares the converter with upstream's. For typed and unstructured objects of
// all kinds, both must return equal field sets, and the conversion back must return the original object.
func TestTypeConverterAsUpstream(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	theirs, ours := upstreamConverter(t), NewTypeConverter()
	compared := 0
	for _, u := range fixtures(t) {
		gvk := u.GroupVersionKind()
		if ofMeta(gvk) || strings.HasSuffix(gvk.Kind, "List") {
			continue // never applied
		}
		want, err := theirs.ObjectToTyped(u)
		if err != nil {
			if _, ourErr := ours.ObjectToTyped(u); ourErr == nil || ourErr.Error() != err.Error() {
				t.Errorf("%v: error %v, upstream %v", gvk, ourErr, err)
			}
			continue
		}
		have, err := ours.ObjectToTyped(u)
		if err != nil {
			t.Errorf("%v: ObjectToTyped: %v", gvk, err)
			continue
		}
		wantSet, err := want.ToFieldSet()
		if err != nil {
			t.Fatalf("%v: field set of upstream: %v", gvk, err)
		}
		haveSet, err := have.ToFieldSet()
		if err != nil {
			t.Errorf("%v: field set: %v", gvk, err)
			continue
		}
		if !haveSet.Equals(wantSet) {
			t.Errorf("%v: fields (ours without theirs) %s (theirs without ours) %s", gvk, haveSet.Difference(wantSet), wantSet.Difference(haveSet))
		}
		back, err := ours.TypedToObject(have)
		if err != nil {
			t.Errorf("%v: TypedToObject: %v", gvk, err)
		} else if !equalJSON(t, back, u) {
			t.Errorf("%v: the object differs after the round trip", gvk)
		}
		compareStructured(t, theirs, ours, u)
		compared++
	}
	if compared < 100 {
		t.Errorf("compared %d kinds, which is too few", compared)
	}
}

// ofMeta reports whether a kind belongs to every group version.
func ofMeta(gvk schema.GroupVersionKind) bool {
	obj, err := scheme.Scheme.New(gvk)
	return err == nil && strings.HasPrefix(reflect.TypeOf(obj).Elem().PkgPath(), "k8s.io/apimachinery/")
}

// compareStructured compares the field sets of the object as a Go type, if the kind has one.
func compareStructured(t *testing.T, theirs, ours managedfields.TypeConverter, u *unstructured.Unstructured) {
	t.Helper()
	gvk := u.GroupVersionKind()
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return // a kind that the server sends to webhooks, such as ImageReview
	}
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, obj); err != nil {
		t.Fatalf("%v: decode the object: %v", gvk, err)
	}
	want, err := theirs.ObjectToTyped(obj)
	if err != nil {
		t.Fatalf("%v: ObjectToTyped of upstream: %v", gvk, err)
	}
	have, err := ours.ObjectToTyped(obj)
	if err != nil {
		t.Errorf("%v: ObjectToTyped: %v", gvk, err)
		return
	}
	wantSet, wantErr := want.ToFieldSet()
	haveSet, haveErr := have.ToFieldSet()
	if wantErr != nil || haveErr != nil {
		t.Errorf("%v: errors %v, %v", gvk, wantErr, haveErr)
	} else if !haveSet.Equals(wantSet) {
		t.Errorf("%v: the Go object has fields %s, want %s", gvk, haveSet, wantSet)
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

// TestTypeConverterMerges applies configurations to an object that another manager partly owns. Many
// goroutines use the same converter.
func TestTypeConverterMerges(t *testing.T) {
	t.Parallel()
	c := NewTypeConverter()
	object := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "spec": spec}}
	}
	port := func(n int64, name string) map[string]any { return map[string]any{"port": n, "name": name} }
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			left, err := c.ObjectToTyped(object(map[string]any{"ports": []any{port(80, "a"), port(81, "b")}}))
			if err != nil {
				t.Error(err)
				return
			}
			right, err := c.ObjectToTyped(object(map[string]any{"ports": []any{port(81, "c")}}))
			if err != nil {
				t.Error(err)
				return
			}
			merged, err := left.Merge(right)
			if err != nil {
				t.Error(err)
				return
			}
			result, err := c.TypedToObject(merged)
			if err != nil {
				t.Error(err)
				return
			}
			want := object(map[string]any{"ports": []any{port(80, "a"), port(81, "c")}})
			if !equalJSON(t, result, want) {
				t.Errorf("merged %v, want %v", result, want)
			}
		})
	}
	group.Wait()
}

// TestMergeKinds looks up all kinds, and some unknown kinds.
func TestMergeKinds(t *testing.T) {
	t.Parallel()
	d := openMergeData(mergeFile)
	for i := range uint32(len(d.kinds) / 16) {
		if _, ok := d.kind(d.kindAt(i)); !ok {
			t.Errorf("%v is not found", d.kindAt(i))
		}
	}
	for i := range uint32(len(d.types)/4 - 1) {
		if d.decode(i).definition.Name != d.name(i) {
			t.Errorf("type %d: names differ", i)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{{}, {Version: "v1", Kind: "PodX"}, {Group: "zz", Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "PodList"}} {
		if _, ok := d.kind(gvk); ok {
			t.Errorf("%v is found", gvk)
		}
	}
}
