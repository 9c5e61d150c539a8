package ownership

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/codec"
)

// TestOrdinaryWritesAreSupported checks that no write in the life cycle of a workload falls back to
// apimachinery, except in case of a conflict.
func TestOrdinaryWritesAreSupported(t *testing.T) {
	t.Parallel()
	for name, l := range loads(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main, status := ours(t, l.fixture, "", resets(l.fixture, "status")), ours(t, l.fixture, "status", resets(l.fixture, "spec"))
			live := copyOf(l.obj)
			if !main.Update(l.empty(), live, "kubectl-create") {
				t.Fatal("a create is not covered")
			}
			live.SetUID("x")
			for i := range 13 {
				for _, k := range []*Kind{main, status} {
					next := copyOf(live)
					l.change(next)
					annotations := next.GetAnnotations()
					annotations[fmt.Sprint("step-", i, k.subresource)] = "done"
					next.SetAnnotations(annotations)
					if !k.Update(live, next, fmt.Sprint("controller-", i)) {
						t.Fatalf("update %d is not covered", i)
					}
					live = next
				}
			}
			if n := len(live.GetManagedFields()); n != 10 {
				t.Errorf("%d entries remain, want the maximum of 10", n)
			}
			config := applied(t, l.obj)
			config.SetAnnotations(map[string]string{"step-12": "undone"})
			if main.Apply(live, config, "applier", false) != nil {
				t.Error("applied despite a conflict")
			}
			for i, change := range []func(*unstructured.Unstructured){
				func(*unstructured.Unstructured) {},
				func(*unstructured.Unstructured) {},
				func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) },
				func(u *unstructured.Unstructured) {
					unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
				},
			} {
				change(config)
				merged := main.Apply(live, config, "applier", true)
				if merged == nil {
					t.Fatalf("apply %d is not covered", i)
				}
				live = merged
			}
		})
	}
}

// TestKindIsConcurrent writes from many goroutines with one cache.
func TestKindIsConcurrent(t *testing.T) {
	t.Parallel()
	l := loads(t)["pod"]
	k := ours(t, l.fixture, "", nil)
	config := applied(t, l.obj)
	want := ""
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				live := threeManagers(l, func(live, obj codec.Object, manager string) { k.Update(live, obj, manager) })
				merged := k.Apply(live, config, "applier", true)
				if merged == nil {
					t.Error("not covered")
					return
				}
				got := show(t, merged.GetManagedFields())
				mu.Lock()
				if want == "" {
					want = got
				} else if got != want {
					t.Errorf("managed fields %s, want %s as before", got, want)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

// TestCacheIsBounded checks that a cache stays within its limit when it is filled with different sets.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	l := loads(t)["configmap"]
	cache := &Cache{}
	k := New(Config{Version: l.version(), Converter: converter(), Cache: cache})
	for i := range 10_000 {
		f := metav1.NewFieldsV1(fmt.Sprintf(`{"f:data":{"f:a-rather-long-name-%d":{}}}`, i))
		for range 2 {
			if _, err := k.parse(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := 0
	for _, half := range []map[cacheKey]*fieldSet{cache.recent, cache.older} {
		for key := range half {
			size += len(key.text)
		}
	}
	if size > 2*maxCached {
		t.Errorf("%d bytes of encoded sets are cached", size)
	}
}

// TestRefillCost checks that the allocations of Refill grow linearly with the length of a list. It is not
// parallel, because it measures allocations.
func TestRefillCost(t *testing.T) {
	l := loads(t)["pod"]
	k := ours(t, l.fixture, "", nil)
	cost := func(n int) float64 {
		pod := copyOf(l.obj).(*corev1.Pod)
		env := make([]corev1.EnvVar, n)
		for i := range env {
			env[i] = corev1.EnvVar{Name: fmt.Sprint("a", i), Value: "x"}
		}
		pod.Spec.Containers[0].Env = env
		config := applied(t, pod)
		return testing.AllocsPerRun(1, func() { k.Refill(pod, pod, config, "applier") })
	}
	if small, large := cost(100), cost(800); large > 16*small {
		t.Errorf("%v allocations for 100 variables, and %v for 800", small, large)
	}
}
