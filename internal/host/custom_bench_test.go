package host

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
)

// largeDefinition returns a definition of about 30 KiB. Like generated definitions, it is deeply nested and has
// long descriptions.
func largeDefinition(i int) *unstructured.Unstructured {
	describe := func(s map[string]any) map[string]any {
		s["description"] = "A field that is described at some length, as generated definitions do, so that whoever reads it knows what it is for."
		return s
	}
	members := map[string]any{}
	for f := range 25 {
		inner := map[string]any{}
		for g := range 6 {
			inner[fmt.Sprintf("value%d", g)] = describe(map[string]any{"type": "string", "maxLength": int64(64)})
		}
		members[fmt.Sprintf("part%d", f)] = describe(map[string]any{"type": "object", "properties": inner})
	}
	crd := definitionOf(groupOf(i), fmt.Sprintf("Kind%d", i), map[string]string{"v1": `{}`}, "v1")
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "properties": members},
	}}}
	return crd
}

func groupOf(i int) string { return fmt.Sprintf("group%d.example.com", i/10) }

// awaitServed waits until a GET of path returns 200. It does not read definitions, so that their caches are
// not filled.
func awaitServed(b *testing.B, r *running, path string) {
	b.Helper()
	err := wait.PollUntilContextTimeout(b.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		code, _ := fetch(b, r.admin, r.URL+path)
		return code == http.StatusOK, nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkDefinitions creates definitions that no client uses, and then requests documents that describe all
// of them. It reports the additional heap.
func BenchmarkDefinitions(b *testing.B) {
	const many = 200
	for b.Loop() {
		r := start(b, Config{})
		c := dynamicClient(b, r)
		before := heap()
		began := time.Now()
		for i := range many {
			if _, err := c.Resource(definitionsGVR).Create(b.Context(), largeDefinition(i), metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		awaitServed(b, r, "/apis/"+groupOf(many-1)+"/v1/kind"+fmt.Sprint(many-1)+"s")
		b.ReportMetric(float64(time.Since(began).Microseconds())/many, "µs/definition")
		b.ReportMetric(float64(int64(heap())-int64(before))/many, "heap-B/definition")
		for name, path := range map[string]string{"discovery": "/apis", "openapi-index": "/openapi/v3", "openapi-one": "/openapi/v3/apis/group1.example.com/v1"} {
			began := time.Now()
			if code, _ := fetch(b, r.admin, r.URL+path, "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"); code != http.StatusOK {
				b.Fatalf("GET %s: code %d", path, code)
			}
			b.ReportMetric(float64(time.Since(began).Microseconds()), "µs-"+name)
		}
		r.end(b)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
