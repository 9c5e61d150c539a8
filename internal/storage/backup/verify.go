package backup

import (
	"context"
	"errors"
	"fmt"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Verified is the result of Verify.
type Verified struct {
	Objects int
	Bytes   int64
	// Opaque is the number of encrypted objects that no identity can decrypt. Only their checksums were
	// verified.
	Opaque int
	// Problems describe damaged and missing objects.
	Problems []error
}

// Verify reads all objects of a catalog and verifies their checksums and contents. It returns the error of
// ctx or of the target.
func (s *Source) Verify(ctx context.Context, c *Catalog) (Verified, error) {
	var v Verified
	for i := range c.Generations {
		g := &c.Generations[i]
		v.Problems = append(v.Problems, g.gaps()...)
		for j := range g.Bases {
			base := &g.Bases[j]
			if err := s.verify(ctx, &v, base.Object, func() error { return s.readBase(ctx, base, embedded.SnapshotReader{}) }); err != nil {
				return v, err
			}
		}
		for j := range g.Segments {
			segment := &g.Segments[j]
			check := func() error {
				_, err := s.readSegment(ctx, segment)
				return err
			}
			if err := s.verify(ctx, &v, segment.Object, check); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

// verify verifies one object.
func (s *Source) verify(ctx context.Context, v *Verified, o Object, read func() error) error {
	err := read()
	if errors.Is(err, ErrEncrypted) {
		v.Opaque++
		err = s.verifySum(ctx, o)
	}
	v.Objects, v.Bytes = v.Objects+1, v.Bytes+o.Size
	s.progress()
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, ErrNotExist) {
		v.Problems, err = append(v.Problems, err), nil
	}
	return err
}

func (s *Source) verifySum(ctx context.Context, o Object) error {
	object, err := s.open(ctx, o)
	if err != nil {
		return err
	}
	defer object.Close()
	_, err = readObject(object, nil, nil)
	return wrapObject(o, err)
}

// gaps describes the missing objects of a generation.
func (g *Generation) gaps() []error {
	if len(g.Bases) == 0 {
		return []error{fmt.Errorf("generation %s has no base, so its segments cannot be restored", g.Name)}
	}
	var problems []error
	last := g.Bases[0].Revision
	for _, s := range g.Segments {
		if s.First > last+1 {
			problems = append(problems, fmt.Errorf("generation %s has no segment from revision %d to %d", g.Name, last+1, s.First-1))
		}
		last = max(last, s.Last)
	}
	return problems
}
