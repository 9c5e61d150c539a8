package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/diff"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	old, value := []string{"a", "b", "c", "d"}, []string{"a", "x", "c", "y"}
	if got, want := validation.Diff(old, value), diff.Diff(old, value); got != want {
		t.Errorf("got %q, want the diff of kube-apiserver %q", got, want)
	}
	if got := validation.Diff(func() {}, old); got == "" {
		t.Error("no text for a value without JSON")
	}
}

// TestDiffOfLongValues compares values that kube-apiserver's algorithm would take hours to compare.
func TestDiffOfLongValues(t *testing.T) {
	t.Parallel()
	list := func(changed string) []string {
		list := make([]string, 200_000)
		for i := range list {
			list[i] = fmt.Sprint(i % 150)
			if i%2 == 0 {
				list[i] += changed
			}
		}
		list[0], list[len(list)-1] = "first", "last"
		return list
	}
	got := strings.Split(validation.Diff(list("a"), list("b")), "\n")
	if want := "@@ -4,199997 +4,199997 @@"; got[0] != want {
		t.Errorf("starts with %q, want %q", got[0], want)
	}
	if len(got) != 202 || got[1] != `- "2a",` || got[101] != `+ "2b",` {
		t.Errorf("the diff has %d lines and contains %q and %q", len(got), got[1], got[101])
	}
	if got, want := validation.Diff(list("a"), list("a")[:1]), "@@ -2,200000 +2,1 @@\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %.100q, want %q", got, want)
	}
}
