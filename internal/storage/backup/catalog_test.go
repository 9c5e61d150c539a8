package backup

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// minute returns the time n minutes after the first base.
func minute(n int) time.Time { return time.Date(2026, 11, 27, 14, n, 0, 0, time.UTC) }

func base(generation string, at kv.Revision, n int) Object {
	b := Base{Revision: at, Time: minute(n)}
	b.setName(generation)
	b.Size = 1000
	return b.Object
}

// segment returns a segment whose first commit is at a minute, and whose last commit is 30 seconds later.
func segment(generation string, first, last kv.Revision, n int) Object {
	s := Segment{First: first, Last: last, FirstTime: minute(n), LastTime: minute(n).Add(30 * time.Second)}
	s.setName(generation)
	s.Size = 10
	return s.Object
}

// catalog returns the catalog of a target that contains the given objects and objects with other names.
func catalog(t *testing.T, objects ...Object) *Catalog {
	t.Helper()
	target := newMemory()
	for _, o := range objects {
		target.objects[o.Name] = make([]byte, o.Size)
	}
	for _, name := range []string{"README", "g1/README", "g1/x.base", "g1/1-2-3-4.segment", "/.base", "g1/0000000000000000009-0000000000000000002-20261127T140000.000Z-20261127T140000.000Z.segment"} {
		target.objects[name] = []byte("other")
	}
	return catalogOf(t, target)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	c := catalog(t,
		base("g1", 10, 0), segment("g1", 11, 14, 1), segment("g1", 15, 20, 2), base("g1", 18, 3), segment("g1", 21, 25, 4), // a base in the middle of a segment
		base("g2", 40, 10), segment("g2", 41, 45, 11), segment("g2", 50, 55, 13), // 46 to 49 are missing
		segment("g3", 1, 2, 14), // no base
	)
	for _, test := range []struct {
		what       string
		at         Moment
		generation string
		base       kv.Revision
		last       kv.Revision // of the segments
		err        error
		message    string
	}{
		{what: "before the first base", at: Moment{Revision: 9}, err: ErrNotCovered, message: "it begins at 2026-11-27T14:00:00Z, revision 10"},
		{what: "the first base", at: Moment{Revision: 10}, base: 10},
		{what: "in a segment", at: Moment{Revision: 12}, base: 10, last: 14},
		{what: "the second base", at: Moment{Revision: 18}, base: 18, last: 20},
		{what: "the end of a generation", at: Moment{Revision: 25}, base: 18, last: 25},
		{what: "between generations", at: Moment{Revision: 30}, err: ErrNotCovered, message: "generation g1 ends at revision 25"},
		{what: "before a missing segment", at: Moment{Revision: 44}, base: 40, last: 45},
		{what: "after a missing segment", at: Moment{Revision: 52}, err: kv.ErrCorrupt, message: "begins at revision 46 is missing"},
		{what: "the newest with a missing segment", err: kv.ErrCorrupt, message: "choose a time before 2026-11-27T14:13:00Z"},
		{what: "a time before the first base", at: Moment{Time: minute(0).Add(-time.Second)}, err: ErrNotCovered, message: "it begins at"},
		{what: "the time of the base", at: Moment{Time: minute(0)}, base: 10},
		{what: "a time in a segment", at: Moment{Time: minute(1).Add(time.Second)}, base: 10, last: 14},
		{what: "a time between segments", at: Moment{Time: minute(2).Add(-time.Second)}, base: 10, last: 14},
		{what: "a time after the second base", at: Moment{Time: minute(3)}, base: 18, last: 20},
		{what: "a time between generations", at: Moment{Time: minute(8)}, err: ErrNotCovered, message: "commits between 2026-11-27T14:04:30Z and 2026-11-27T14:10:00Z are missing; use --generation=g1"},
		{what: "a time between generations, of one of them", at: Moment{Time: minute(8)}, generation: "g1", base: 18, last: 25},
		{what: "the newest of a generation", generation: "g1", base: 18, last: 25},
		{what: "an unknown generation", generation: "g9", err: ErrNotCovered, message: "there is no generation g9"},
		{what: "a generation without a base", generation: "g3", err: ErrNotCovered, message: "there is no generation g3 with a base"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			p, err := c.Plan(test.at, test.generation)
			if test.err != nil {
				if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.message) {
					t.Fatalf("%v, want %v: %s", err, test.err, test.message)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var last kv.Revision
			if n := len(p.Segments); n > 0 {
				last = p.Segments[n-1].Last
			}
			if p.Base.Revision != test.base || last != test.last || p.newest != 55 {
				t.Errorf("base %d and segments to %d, newest %d; want %d, %d and 55", p.Base.Revision, last, p.newest, test.base, test.last)
			}
		})
	}
	if _, err := catalog(t).Plan(Moment{}, ""); !errors.Is(err, ErrNotCovered) {
		t.Errorf("empty: %v", err)
	}
}

func TestObsolete(t *testing.T) {
	t.Parallel()
	old := []Object{base("g1", 10, 0), segment("g1", 11, 14, 1)}
	before := []Object{base("g2", 20, 2), segment("g2", 21, 25, 3)}
	kept := []Object{segment("g2", 26, 30, 4), base("g2", 28, 5), segment("g2", 31, 40, 6), base("g2", 40, 20), segment("g2", 41, 42, 21)}
	c := catalog(t, slices.Concat(old, before, kept)...)
	for _, test := range []struct {
		oldest time.Time
		want   []Object
	}{
		{minute(-1), nil},
		{minute(1), nil},
		{minute(4), old},
		{minute(6), slices.Concat(old, before[:1], before[1:])},
		{minute(19), slices.Concat(old, before)},
	} {
		var want []string
		for _, o := range test.want {
			want = append(want, o.Name)
		}
		if got := c.obsolete(test.oldest); !slices.Equal(got, want) {
			t.Errorf("%v: %q, want %q", test.oldest, got, want)
		}
	}
	if got := catalog(t, old...).obsolete(minute(59)); len(got) > 0 {
		t.Errorf("the newest generation: %q", got)
	}
}
