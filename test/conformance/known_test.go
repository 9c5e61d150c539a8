package conformance

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKnownRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "known.txt")
	want := Known{{"one", 1}: "late", {"one", 2}: "late", {"one", 3}: "late", {"one", 7}: "late", {"two", 5}: "other"}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadKnown(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if err := (Known{}).Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err = ReadKnown(path); err != nil || len(got) != 0 {
		t.Errorf("an empty list reads as %v (%v)", got, err)
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for text, steps := range map[string][]int{"1": {1}, "1-3": {1, 2, 3}, "2,4-5,9": {2, 4, 5, 9}} {
		got, err := parseSteps(text)
		if err != nil || !cmp.Equal(steps, got) {
			t.Errorf("%s: got %v (%v), want %v", text, got, err, steps)
		}
		if back := formatSteps(got); back != text {
			t.Errorf("%v: got %s, want %s", got, back, text)
		}
	}
	for _, text := range []string{"", "x", "1-", "3-x"} {
		if got, err := parseSteps(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestKnownNeedsReasons(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"scenario\t1", "scenario\t1\t ", "scenario 1 reason"} {
		if err := (Known{}).add(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}

func TestCauseIsGeneral(t *testing.T) {
	t.Parallel()
	got := cause([]string{".items[3].metadata.uid: want " + recordedUID + ", got nothing", "more"})
	if want := ".items[].metadata.uid: want …, got nothing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if long := cause([]string{strings.Repeat("ä", 500)}); len(long) > 120 {
		t.Errorf("%d bytes long", len(long))
	}
}
