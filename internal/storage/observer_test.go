package storage

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

func TestObserversTogether(t *testing.T) {
	t.Parallel()
	told := ""
	broken := errors.New("broken")
	first := &Observer{Written: func(*codec.Record) error { told += "w"; return broken }}
	second := &Observer{
		Written: func(*codec.Record) error { told += "W"; return nil },
		Deleted: func(types.NamespacedName, int64) { told += "D" },
	}
	third := &Observer{Written: second.Written, Deleted: func(types.NamespacedName, int64) { told += "E" }}
	var none *Observer
	if none.And(nil) != nil || none.And(first) != first || first.And(nil) != first {
		t.Error("none is not left out")
	}
	all := first.And(second).And(third)
	if err := all.Written(nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	all.Deleted(types.NamespacedName{}, 1)
	if told != "wWWDE" {
		t.Errorf("told %s", told)
	}
	if first.And(first).Deleted != nil {
		t.Error("deletions are observed by nobody")
	}
}
