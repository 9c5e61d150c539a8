package testserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPanics(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, log string
		want      []string
	}{
		{"quiet", "serving\nstopped", nil},
		{"recovered by the server", "serving\nlevel=ERROR msg=\"handler panicked\"\nstack", []string{"level=ERROR msg=\"handler panicked\"\nstack"}},
		{"fatal", "panic: runtime error\n\ngoroutine 1", []string{"panic: runtime error\n\ngoroutine 1"}},
		{"race", "WARNING: DATA RACE\nRead at", []string{"WARNING: DATA RACE\nRead at"}},
		{"concurrent map access", "fatal error: concurrent map writes", []string{"fatal error: concurrent map writes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Panics(tt.log)); diff != "" {
				t.Errorf("panics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPanicsAreCutToTwentyLines(t *testing.T) {
	t.Parallel()
	found := Panics("panic: x\n" + strings.Repeat("frame\n", 50))
	if len(found) != 1 || strings.Count(found[0], "\n") != 19 {
		t.Errorf("got %d findings, the first of %d lines; want 1 of 20", len(found), strings.Count(found[0], "\n")+1)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	if got, want := tail("a\nb\nc\n", 2), "b\nc"; got != want {
		t.Errorf("tail: got %q, want %q", got, want)
	}
}
