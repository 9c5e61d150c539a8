package history

import (
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// minute returns the n-th minute of the test clock.
func minute(n int) time.Time { return time.Date(2026, 11, 22, 0, n, 0, 0, time.UTC) }

// marked returns marks of revisions 10, 20, ... at the given minutes of the clock, one per minute of
// uptime.
func marked(minutes ...int) *Marks {
	var m Marks
	for i, n := range minutes {
		m.Add(Mark{Revision: kv.Revision(10 * (i + 1)), Time: minute(n), Uptime: time.Duration(i) * time.Minute})
	}
	return &m
}

func TestAtTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clock []int // minutes at which revisions 10, 20, ... were marked
		now   int
		want  map[int]kv.Revision // by minute; 0 if unknown
	}{
		"no marks":             {nil, 5, map[int]kv.Revision{3: 0}},
		"even":                 {[]int{1, 2, 3, 4}, 5, map[int]kv.Revision{0: 0, 1: 10, 2: 20, 4: 40, 5: 40}},
		"an hour of rest":      {[]int{1, 2, 62, 63}, 64, map[int]kv.Revision{2: 20, 30: 20, 61: 20, 62: 30}},
		"a jump forward":       {[]int{1, 2, 6000, 6001}, 6002, map[int]kv.Revision{2: 20, 3: 20, 5999: 20, 6000: 30}},
		"forward, then mended": {[]int{1, 2, 6000, 4, 5}, 6, map[int]kv.Revision{2: 20, 3: 20, 4: 40, 5: 50}},
		"back":                 {[]int{100, 101, 41, 42}, 43, map[int]kv.Revision{40: 0, 41: 30, 42: 40}},
		// While the clock was behind, the age of the revisions is unknown.
		"back, then mended":    {[]int{100, 101, 0, 1, 104}, 105, map[int]kv.Revision{1: 0, 99: 0, 100: 10, 101: 40, 103: 40, 104: 50}},
		"a little back":        {[]int{10, 11, 8, 9, 12}, 13, map[int]kv.Revision{9: 0, 10: 10, 11: 40, 12: 50}},
		"all in the future":    {[]int{100, 101}, 5, map[int]kv.Revision{3: 0, 5: 0}},
		"forward for a while":  {[]int{1, 2, 63, 64, 5, 6}, 70, map[int]kv.Revision{2: 20, 6: 20, 62: 20, 63: 30, 64: 60}},
		"forward, still ahead": {[]int{1, 2, 63, 64, 5, 6}, 7, map[int]kv.Revision{2: 20, 4: 20, 5: 50, 6: 60}},
	} {
		m := marked(c.clock...)
		for at, want := range c.want {
			got, ok := m.AtTime(minute(at), minute(c.now))
			if got != want || ok != (want > 0) {
				t.Errorf("%s: at minute %d revision %d, %t; want %d", name, at, got, ok, want)
			}
		}
	}
}

// TestWallClock checks that marks are compared by the machine's clock. If the clock is set back, the monotonic
// clock would not tell that a mark is in the future.
func TestWallClock(t *testing.T) {
	t.Parallel()
	var m Marks
	now := time.Now()
	m.Add(Mark{Revision: 1, Time: now})
	if last, _ := m.Last(); last.Time != now.Round(0) {
		t.Errorf("the time of the mark is %s, want %s", last.Time, now.Round(0))
	}
}

func TestAtUptime(t *testing.T) {
	t.Parallel()
	m := marked(1, 6000, 3, 4) // independent of the clock
	for uptime, want := range map[time.Duration]kv.Revision{-time.Second: 0, 0: 10, time.Minute - 1: 10, time.Minute: 20, time.Hour: 40} {
		if got := m.AtUptime(uptime); got != want {
			t.Errorf("at %s: revision %d, want %d", uptime, got, want)
		}
	}
}

func TestMarksAscend(t *testing.T) {
	t.Parallel()
	m := marked(1, 2)
	for _, rev := range []kv.Revision{20, 15} {
		if _, added := m.Add(Mark{Revision: rev, Time: minute(9), Uptime: time.Hour}); added {
			t.Errorf("revision %d was marked after revision 20", rev)
		}
	}
	if _, added := m.Add(Mark{Revision: 21, Time: minute(9)}); !added {
		t.Fatal("a newer revision was not marked")
	}
	if last, _ := m.Last(); last.Uptime != time.Minute {
		t.Errorf("the uptime decreased to %s", last.Uptime)
	}
	m.Forget(20)
	if rev, ok := m.AtTime(minute(1), minute(10)); ok {
		t.Errorf("revision %d for the time of a forgotten mark", rev)
	}
	if rev, ok := m.AtTime(minute(2), minute(10)); !ok || rev != 20 {
		t.Errorf("the mark of the compacted revision has revision %d, %t", rev, ok)
	}
}

// TestMarksBounded checks that the marks of a year use no more memory than the marks of a few days, and that
// they still cover the whole year.
func TestMarksBounded(t *testing.T) {
	t.Parallel()
	var m Marks
	const year = 366 * 24 * 60
	for i := range year {
		before := m.Len()
		thinned, added := m.Add(Mark{Revision: kv.Revision(i + 1), Time: minute(i), Uptime: time.Duration(i) * time.Minute})
		if !added || m.Len() != before+1-len(thinned) || m.Len() > MaxMarks {
			t.Fatalf("mark %d: %d marks after %d, %d thinned, added %t", i, m.Len(), before, len(thinned), added)
		}
	}
	for at, least := range map[int]kv.Revision{0: 1, year / 2: 1, year - 60: year - 60, year - 1: year} {
		if rev, ok := m.AtTime(minute(at), minute(year)); !ok || rev < least || rev > kv.Revision(at+1) {
			t.Errorf("at minute %d: revision %d, %t", at, rev, ok)
		}
	}
}
