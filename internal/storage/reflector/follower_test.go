package reflector_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// images stores the image of each pod. A pod without containers is undecodable.
type images struct {
	mu    sync.Mutex
	of    map[types.NamespacedName]string
	reads atomic.Int32
}

func (i *images) follower() *reflector.Follower[string] {
	return reflector.NewFollower(reflector.FollowerConfig[string]{
		Name: "pods", Lock: &i.mu, Names: maps.Keys(i.of),
		Read: func(record *codec.Record) (string, error) {
			pod, err := codec.SharedAs[*corev1.Pod](record)
			if err != nil {
				return "", err
			}
			i.reads.Add(1)
			if len(pod.Spec.Containers) == 0 {
				return "", errors.New("no containers")
			}
			return pod.Spec.Containers[0].Image, nil
		},
		Set:    func(at types.NamespacedName, image string) { i.of[at] = image },
		Remove: func(at types.NamespacedName) { delete(i.of, at) },
	})
}

func (i *images) get(name string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of[types.NamespacedName{Namespace: "a", Name: name}]
}

func podWith(name, image string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "a", name
	if image != "" {
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
	}
	return pod
}

// TestFollower checks that writes through the observed storage take effect immediately, that other writes
// take effect when the Reflector reports them, and that outdated reports are ignored.
func TestFollower(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stored := newPods(t), &images{of: map[types.NamespacedName]string{}}
		f := stored.follower()
		here, elsewhere := storage.WithObserver(p.Interface, f.Observer()), p.Interface
		create := func(to storage.Interface, pod *corev1.Pod) *codec.Record {
			t.Helper()
			record, err := to.Create(t.Context(), pod, storage.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return record
		}
		remove := func(from storage.Interface, name string) {
			t.Helper()
			if _, err := from.Delete(t.Context(), types.NamespacedName{Namespace: "a", Name: name}, nil, storage.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(name, image string) {
			t.Helper()
			if got := stored.get(name); got != image {
				t.Errorf("%s has %q, want %q", name, got, image)
			}
		}
		create(elsewhere, podWith("before", "1"))
		r, err := f.Reflector(p)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go r.Run(ctx)
		synctest.Wait()
		want("before", "1")

		old := create(here, podWith("mine", "2"))
		want("mine", "2")
		reads := stored.reads.Load()
		synctest.Wait()
		if stored.reads.Load() != reads {
			t.Error("a record that the writer has reported was read again")
		}
		remove(here, "mine")
		want("mine", "")
		if err := f.Observer().Written(old); err != nil { // a delayed report
			t.Fatal(err)
		}
		want("mine", "")

		create(elsewhere, podWith("theirs", "3"))
		create(here, podWith("unreadable", ""))
		synctest.Wait()
		want("theirs", "3")
		want("unreadable", "")
		remove(elsewhere, "theirs")
		synctest.Wait()
		want("theirs", "")
		stop()
		synctest.Wait()

		remove(elsewhere, "before") // reported only by the next list
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("before", "")
	})
}
