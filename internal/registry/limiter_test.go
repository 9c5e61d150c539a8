package registry_test

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// limiterProbe is a storage that fails the test if the limiter is held during a write.
type limiterProbe struct {
	storage.Interface
	t       *testing.T
	limiter *semaphore.Weighted
}

func (s limiterProbe) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	if !s.limiter.TryAcquire(1) {
		s.t.Error("the limiter is held while an object is written")
	} else {
		s.limiter.Release(1)
	}
	return s.Interface.Create(ctx, obj, options)
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	limiter := semaphore.NewWeighted(1)
	validations := 0
	limited := func() field.ErrorList {
		if limiter.TryAcquire(1) {
			limiter.Release(1)
			t.Error("an object is validated without the limiter")
		}
		validations++
		return nil
	}
	e := newEnv(t, &registry.Strategy{
		Validate:       func(context.Context, codec.Object) field.ErrorList { return limited() },
		ValidateUpdate: func(context.Context, codec.Object, codec.Object) field.ErrorList { return limited() },
	}, func(s storage.Interface) storage.Interface { return limiterProbe{s, t, limiter} })
	e.Limiter = limiter

	e.create(pod("p"))
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	if _, err := e.change(e, "p", label, rest.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if validations != 2 {
		t.Errorf("%d validations, want 2", validations)
	}

	// A request that is cancelled stops waiting.
	if err := limiter.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.Create(ctx, pod("q"), nil, metav1.CreateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("without the limiter: %v, want canceled", err)
	}
	if e.get("q") != nil {
		t.Error("an object was created without the limiter")
	}
}
