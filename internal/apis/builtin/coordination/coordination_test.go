package coordination

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

func TestLeases(t *testing.T) {
	t.Parallel()
	strategy := func(name string) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.Spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy(name)) }
	}
	valid := func() *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(1)), LeaseTransitions: new(int32(0))}}
	}
	validationtest.Rules[coordinationv1.Lease](validateLease).Create(t, valid, []validationtest.Case[coordinationv1.Lease]{
		{Name: "no time", Change: func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(0)) },
			Want: []string{"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"}},
		{Name: "a strategy", Change: strategy("OldestEmulationVersion")},
		{Name: "another strategy", Change: strategy("example.com/mine")},
		{Name: "a strategy there is not", Change: strategy("Mine"),
			Want: []string{`spec.strategy.strategy: Unsupported value: "Mine": supported values: "OldestEmulationVersion"`}},
		{Name: "a strategy that cannot be", Change: strategy("a/b/c"), Want: []string{"spec.strategy.strategy: Invalid value: \"a/b/c\""}},
		{Name: "a holder without strategy", Change: func(l *coordinationv1.Lease) { l.Spec.PreferredHolder = new("a") },
			Want: []string{"spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"}},
	})
}
