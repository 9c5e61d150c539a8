package openapi

import (
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// BenchmarkTypeOfOneKind is the cost of the first apply of a kind, here of the
// largest one, with nothing decoded before.
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
