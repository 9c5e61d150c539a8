package registry_test

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/registry"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage"
)

// turnTaker finds out whether turns are free.
type turnTaker struct {
	storage.Interface
	t     *testing.T
	turns *semaphore.Weighted
}

func (s turnTaker) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	if !s.turns.TryAcquire(1) {
		s.t.Error("a turn is kept while an object is written")
	} else {
		s.turns.Release(1)
	}
	return s.Interface.Create(ctx, obj, options)
}

func TestTurns(t *testing.T) {
	t.Parallel()
	turns := semaphore.NewWeighted(1)
	validations := 0
	inTurn := func() field.ErrorList {
		if turns.TryAcquire(1) {
			turns.Release(1)
			t.Error("an object is validated without a turn")
		}
		validations++
		return nil
	}
	e := newEnv(t, &registry.Strategy{
		Validate:       func(context.Context, codec.Object) field.ErrorList { return inTurn() },
		ValidateUpdate: func(context.Context, codec.Object, codec.Object) field.ErrorList { return inTurn() },
	}, func(s storage.Interface) storage.Interface { return turnTaker{s, t, turns} })
	e.Turns = turns

	e.create(pod("p"))
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	if _, err := e.change(e, "p", label, rest.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if validations != 2 {
		t.Errorf("%d validations, want 2", validations)
	}

	// Whoever waits for a turn goes away with the request.
	if err := turns.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.Create(ctx, pod("q"), nil, metav1.CreateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("without a turn: %v, want canceled", err)
	}
	if e.get("q") != nil {
		t.Error("an object was created without a turn")
	}
}
