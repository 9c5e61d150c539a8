package storage

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

func TestObserverAnd(t *testing.T) {
	t.Parallel()
	calls := ""
	broken := errors.New("broken")
	first := &Observer{Written: func(*codec.Record) error { calls += "w"; return broken }}
	second := &Observer{
		Written: func(*codec.Record) error { calls += "W"; return nil },
		Deleted: func(types.NamespacedName, int64) { calls += "D" },
	}
	third := &Observer{Written: second.Written, Deleted: func(types.NamespacedName, int64) { calls += "E" }}
	var none *Observer
	if none.And(nil) != nil || none.And(first) != first || first.And(nil) != first {
		t.Error("And does not skip a nil observer")
	}
	all := first.And(second).And(third)
	if err := all.Written(nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	all.Deleted(types.NamespacedName{}, 1)
	if calls != "wWWDE" {
		t.Errorf("calls %s", calls)
	}
	if first.And(first).Deleted != nil {
		t.Error("Deleted is set, although neither observer has a Deleted function")
	}
}
