package reflector_test

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// TestObjects checks that existing objects, writes by other servers and writes by this server are reported
// once each, and that writes by this server are reported before they return.
func TestObjects(t *testing.T) {
	t.Parallel()
	stored := newPods(t)
	var mu sync.Mutex
	now := map[string]string{}
	changed := make(chan string, 100)
	reports := 0
	objects := reflector.NewObjects(reflector.ObjectsConfig[*corev1.Pod]{
		Name: "pods", Logger: slog.New(slog.DiscardHandler),
		Set: func(pod *corev1.Pod) { mu.Lock(); defer mu.Unlock(); reports++; now[pod.Name] = pod.Labels["is"] },
		Remove: func(name types.NamespacedName) {
			mu.Lock()
			defer mu.Unlock()
			reports++
			delete(now, name.Name)
		},
		Done: func() {
			mu.Lock()
			defer mu.Unlock()
			var all []string
			for _, name := range slices.Sorted(maps.Keys(now)) {
				all = append(all, name+"="+now[name])
			}
			changed <- strings.Join(all, " ")
		},
	})
	write := func(s storage.Interface, name, is string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"is": is}}}
		if _, err := s.Create(t.Context(), pod, storage.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	write(stored, "one", "1")
	r, err := objects.Reflector(stored, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		for got := ""; got != want; {
			select {
			case got = <-changed:
			case <-t.Context().Done():
				t.Fatalf("%q was not reported", want)
			}
		}
	}
	expect("one=1")
	own := storage.WithObserver(stored, &storage.Observer{Written: objects.Written, Deleted: objects.Deleted})
	write(own, "two", "2")
	if got := <-changed; got != "one=1 two=2" {
		t.Errorf("after the write: %q", got)
	}
	go r.Run(t.Context())
	write(stored, "three", "3") // by another server
	expect("one=1 three=3 two=2")
	mu.Lock()
	if reports != 3 {
		t.Errorf("%d reports of 3 objects", reports)
	}
	mu.Unlock()
	if _, err := own.Delete(t.Context(), types.NamespacedName{Namespace: "a", Name: "one"}, nil, storage.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-changed; got != "three=3 two=2" {
		t.Errorf("after the deletion: %q", got)
	}
}
