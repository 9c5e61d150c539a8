package registry_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// TestDeletionWorkers checks the number of concurrent deletions of a collection.
func TestDeletionWorkers(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{0, 1, 4} {
		e := newEnv(t, nil, nil)
		e.Deletion.Workers = workers
		for i := range 12 {
			e.create(pod(fmt.Sprintf("p%d", i)))
		}
		want := int32(max(workers, 1))
		var active atomic.Int32
		full := make(chan struct{}) // closed when all workers are active
		validate := func(ctx context.Context, _, _ codec.Object) error {
			now := active.Add(1)
			defer active.Add(-1)
			if now > want {
				t.Errorf("%d deletions with %d workers", now, workers)
			}
			if now == want {
				select {
				case <-full:
				default:
					close(full)
				}
			}
			select {
			case <-full:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		deleted, err := e.DeleteCollection(e.ctx, "a", validate, metav1.DeleteOptions{}, rest.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range deleted.Items {
			n++
		}
		if n != 12 || e.get("p3") != nil {
			t.Errorf("%d workers: %d objects deleted", workers, n)
		}
	}
}

// TestDeletionWorkersFail checks that an error or a panic of a worker ends the deletion.
func TestDeletionWorkersFail(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	e.Deletion.Workers = 3
	for i := range 9 {
		e.create(pod(fmt.Sprintf("p%d", i)))
	}
	refused := errors.New("refused")
	_, err := e.DeleteCollection(e.ctx, "a", func(context.Context, codec.Object, codec.Object) error { return refused }, metav1.DeleteOptions{}, rest.ListOptions{})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	defer func() {
		if reason := recover(); reason != "broken" {
			t.Errorf("panic %v", reason)
		}
	}()
	_, _ = e.DeleteCollection(e.ctx, "a", func(context.Context, codec.Object, codec.Object) error { panic("broken") }, metav1.DeleteOptions{}, rest.ListOptions{})
	t.Error("no panic")
}

// TestIgnorePropagation checks that finalizers for dependents are neither added nor removed.
func TestIgnorePropagation(t *testing.T) {
	t.Parallel()
	e := newEnv(t, &registry.Strategy{OrphanByDefault: true}, nil)
	e.Deletion.IgnorePropagation = true
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, ""} {
		e.create(pod("p"))
		options := metav1.DeleteOptions{PropagationPolicy: &policy}
		if policy == "" {
			options.PropagationPolicy = nil
		}
		if _, gone := e.delete("p", options); !gone {
			t.Errorf("with the policy %q, the object still exists", policy)
		}
	}
	e.create(pod("q", func(p *corev1.Pod) { p.Finalizers = []string{metav1.FinalizerOrphanDependents} }))
	background := metav1.DeletePropagationBackground
	if marked, gone := e.delete("q", metav1.DeleteOptions{PropagationPolicy: &background}); gone || len(marked.Finalizers) != 1 {
		t.Errorf("gone %t, finalizers %v", gone, marked.Finalizers)
	}
}
