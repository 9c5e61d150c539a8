package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Catalog is the content of a target.
type Catalog struct {
	// Generations are in the order of their names, which begin with the time of their creation.
	Generations []Generation
}

// Generation is a sequence of bases and segments.
type Generation struct {
	Name string
	// Bases are in the order of their revisions.
	Bases []Base
	// Segments are in the order of their revisions. A segment begins after the last revision of the
	// segment before it, unless objects are missing.
	Segments []Segment
}

// ReadCatalog lists the objects of a target. It ignores objects whose names are not those of bases or
// segments. It returns the error of the target.
func ReadCatalog(ctx context.Context, t Target) (*Catalog, error) {
	objects, err := t.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the objects of %s: %w", t, err)
	}
	found := map[string]*Generation{}
	for _, o := range objects {
		name, base, segment := parseName(o)
		if name == "" {
			continue
		}
		g := found[name]
		if g == nil {
			g = &Generation{Name: name}
			found[name] = g
		}
		if base != nil {
			g.Bases = append(g.Bases, *base)
		} else {
			g.Segments = append(g.Segments, *segment)
		}
	}
	c := &Catalog{}
	for _, g := range found {
		slices.SortFunc(g.Bases, func(a, b Base) int { return cmp.Compare(a.Revision, b.Revision) })
		slices.SortFunc(g.Segments, func(a, b Segment) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
		})
		c.Generations = append(c.Generations, *g)
	}
	slices.SortFunc(c.Generations, func(a, b Generation) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// Newest returns the newest revision of a generation, and its time.
func (g *Generation) Newest() (kv.Revision, time.Time) {
	var at kv.Revision
	var t time.Time
	if n := len(g.Bases); n > 0 {
		at, t = g.Bases[n-1].Revision, g.Bases[n-1].Time
	}
	if n := len(g.Segments); n > 0 && g.Segments[n-1].Last > at {
		at, t = g.Segments[n-1].Last, g.Segments[n-1].LastTime
	}
	return at, t
}

// Bytes returns the size of all objects of a generation.
func (g *Generation) Bytes() int64 {
	var n int64
	for i := range g.Bases {
		n += g.Bases[i].Size
	}
	for i := range g.Segments {
		n += g.Segments[i].Size
	}
	return n
}

// newestRevision returns the newest revision of all generations.
func (c *Catalog) newestRevision() kv.Revision {
	var newest kv.Revision
	for i := range c.Generations {
		at, _ := c.Generations[i].Newest()
		newest = max(newest, at)
	}
	return newest
}

// Moment specifies the state to restore: the state at Revision if it is not 0, otherwise the state at Time if
// it is not zero, otherwise the newest state.
type Moment struct {
	Revision kv.Revision
	Time     time.Time
}

// isBefore reports whether the moment is before a commit with a revision and a time.
func (m Moment) isBefore(at kv.Revision, t time.Time) bool {
	if m.Revision > 0 {
		return m.Revision < at
	}
	return !m.Time.IsZero() && m.Time.Before(t)
}

// Plan contains the base and the later segments that are needed to restore the state at a Moment.
type Plan struct {
	Generation string
	Base       Base
	Segments   []Segment
	// newest is the newest revision of the catalog.
	newest kv.Revision
	moment Moment
}

// ErrNotCovered reports that a backup does not contain the state at a Moment.
var ErrNotCovered = errors.New("the backup does not contain this time")

// Plan selects the objects that are needed to restore the state at a Moment. generation restricts the choice
// to one generation if it is not empty. The error wraps ErrNotCovered, or kv.ErrCorrupt if objects are
// missing.
func (c *Catalog) Plan(at Moment, generation string) (*Plan, error) {
	var best *Generation
	var base *Base
	for i := range c.Generations {
		g := &c.Generations[i]
		if generation != "" && g.Name != generation {
			continue
		}
		if b := g.baseFor(at); b != nil && (base == nil || g.better(b, best, base, at)) {
			best, base = g, b
		}
	}
	if base == nil {
		return nil, c.notCovered(generation)
	}
	p := &Plan{Generation: best.Name, Base: *base, newest: c.newestRevision(), moment: at}
	last := base.Revision
	for _, s := range best.Segments {
		if s.Last <= base.Revision {
			continue
		}
		if at.isBefore(s.First, s.FirstTime) {
			return p, nil
		}
		if s.First > last+1 {
			return nil, fmt.Errorf("the segment of generation %s that begins at revision %d is missing; choose a time before %s, or after a later base: %w", best.Name, last+1, formatTime(s.FirstTime), kv.ErrCorrupt)
		}
		last = max(last, s.Last)
		p.Segments = append(p.Segments, s)
	}
	if at.Revision > last {
		return nil, fmt.Errorf("%w: generation %s ends at revision %d", ErrNotCovered, best.Name, last)
	}
	if generation == "" && !at.Time.IsZero() {
		return p, c.checkGap(best, base, last)
	}
	return p, nil
}

// baseFor returns the newest base that is not newer than a moment, or nil if all bases are newer.
func (g *Generation) baseFor(at Moment) *Base {
	for i := len(g.Bases) - 1; i >= 0; i-- {
		if b := &g.Bases[i]; !at.isBefore(b.Revision, b.Time) {
			return b
		}
	}
	return nil
}

// better reports whether base, a base of g, should be preferred to otherBase, a base of other. A generation
// that reaches the revision of the moment is preferred, then the newer base, then the longer generation.
func (g *Generation) better(base *Base, other *Generation, otherBase *Base, at Moment) bool {
	end, _ := g.Newest()
	otherEnd, _ := other.Newest()
	if has := end >= at.Revision; has != (otherEnd >= at.Revision) {
		return has
	}
	return cmp.Or(base.Time.Compare(otherBase.Time), cmp.Compare(end, otherEnd)) > 0
}

// checkGap returns an error if commits may be missing between the last revision of a generation and the
// base of a later one.
func (c *Catalog) checkGap(g *Generation, base *Base, last kv.Revision) error {
	for i := range c.Generations {
		next := &c.Generations[i]
		if len(next.Bases) > 0 && next.Bases[0].Time.After(base.Time) && next.Name != g.Name && next.Bases[0].Revision != last {
			_, end := g.Newest()
			return fmt.Errorf("%w: commits between %s and %s are missing; use --generation=%s to restore the last state before them",
				ErrNotCovered, formatTime(end), formatTime(next.Bases[0].Time), g.Name)
		}
	}
	return nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// notCovered returns the error for a moment without a base.
func (c *Catalog) notCovered(generation string) error {
	var oldest *Base
	for i := range c.Generations {
		g := &c.Generations[i]
		if (generation == "" || g.Name == generation) && len(g.Bases) > 0 && (oldest == nil || g.Bases[0].Time.Before(oldest.Time)) {
			oldest = &g.Bases[0]
		}
	}
	switch {
	case oldest != nil:
		return fmt.Errorf("%w: it begins at %s, revision %d", ErrNotCovered, formatTime(oldest.Time), oldest.Revision)
	case generation != "":
		return fmt.Errorf("%w: there is no generation %s with a base", ErrNotCovered, generation)
	}
	return fmt.Errorf("%w: it has no base", ErrNotCovered)
}
