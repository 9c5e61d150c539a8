package overlay

import (
	"context"
	"errors"
	"fmt"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Range implements kv.Backend.
func (b *Backend) Range(ctx context.Context, req kv.RangeRequest) (kv.RangeResult, error) {
	p := b.findRange(req.Start, req.End)
	if p == nil || req.Limit < 0 {
		return b.Backend.Range(ctx, req)
	}
	if err := p.checkRevision(req.At); err != nil {
		return kv.RangeResult{}, err
	}
	for {
		result, err := b.merge(ctx, p, req)
		if req.At == 0 && errors.Is(err, kv.ErrCompacted) {
			continue // the revision of the first page was compacted before the next one was read
		}
		return result, err
	}
}

// merge reads the stored entries and the entries of the base in pages, and merges them.
func (b *Backend) merge(ctx context.Context, p *place, req kv.RangeRequest) (kv.RangeResult, error) {
	start, end := p.relative(req.Start), p.relativeEnd(req.End)
	result := kv.RangeResult{Revision: req.At}
	if req.CountOnly || req.WithCount {
		inBase, err := p.base.Count(ctx, start, end)
		if err != nil {
			return kv.RangeResult{}, fmt.Errorf("count the base of %s: %w", p.prefix, err)
		}
		if inBase == 0 {
			return b.Backend.Range(ctx, req)
		}
		if result.Revision, result.Count, err = b.count(ctx, p, req, inBase); err != nil || req.CountOnly {
			return result, err
		}
	}
	stored := source{start: req.Start, read: func(start string) ([]kv.Entry, bool, error) {
		page, err := b.Backend.Range(ctx, kv.RangeRequest{Start: start, End: req.End, At: result.Revision, Limit: req.Limit})
		result.Revision = page.Revision
		return page.Entries, page.More, err
	}}
	base := source{start: start, read: func(start string) ([]kv.Entry, bool, error) {
		return p.base.Range(ctx, start, end, req.Limit)
	}}
	for {
		own, below, err := peekBoth(&stored, &base)
		if err != nil {
			return kv.RangeResult{}, err
		}
		if own == nil && below == nil {
			break
		}
		if own != nil && (below == nil || p.relative(own.Key) <= below.Key) {
			if below != nil && p.relative(own.Key) == below.Key {
				base.advance()
			}
			stored.advance()
			if isTombstone(own) {
				continue
			}
		} else {
			base.advance()
			own = p.entry(below)
		}
		if req.Limit > 0 && len(result.Entries) == req.Limit {
			result.More = true
			break
		}
		result.Entries = append(result.Entries, *own)
	}
	if !result.More && !req.WithCount {
		result.Count = int64(len(result.Entries))
	}
	return result, nil
}

// count returns the number of visible keys of a range, and the revision of the count. Its cost is proportional
// to the number of stored keys.
func (b *Backend) count(ctx context.Context, p *place, req kv.RangeRequest, inBase int64) (kv.Revision, int64, error) {
	const page = 1000
	revision, total := req.At, inBase
	for start, more := req.Start, true; more; {
		stored, err := b.Backend.Range(ctx, kv.RangeRequest{Start: start, End: req.End, At: revision, Limit: page})
		if err != nil {
			return 0, 0, err
		}
		revision, more = stored.Revision, stored.More
		for i := range stored.Entries {
			e := &stored.Entries[i]
			start = e.Key + "\x00"
			below, err := p.get(ctx, e.Key)
			switch {
			case err != nil:
				return 0, 0, err
			case isTombstone(e):
				total--
			case below == nil:
				total++
			}
		}
	}
	return revision, total, nil
}

// source reads sorted entries in pages.
type source struct {
	start string
	read  func(start string) (page []kv.Entry, more bool, err error)
	page  []kv.Entry
	done  bool // no page follows
}

// peek returns the next entry, or nil at the end.
func (s *source) peek() (*kv.Entry, error) {
	for len(s.page) == 0 && !s.done {
		page, more, err := s.read(s.start)
		if err != nil {
			return nil, err
		}
		s.page, s.done = page, !more
		if len(page) > 0 {
			s.start = page[len(page)-1].Key + "\x00"
		}
	}
	if len(s.page) == 0 {
		return nil, nil
	}
	return &s.page[0], nil
}

// advance skips the entry of peek.
func (s *source) advance() { s.page = s.page[1:] }

// peekBoth returns the next entries of two sources. The first one is read first.
func peekBoth(stored, base *source) (own, below *kv.Entry, err error) {
	if own, err = stored.peek(); err == nil {
		below, err = base.peek()
	}
	return own, below, err
}
