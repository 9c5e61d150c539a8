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
	result, err := b.rangeOf(ctx, p, req)
	if req.At != 0 || !errors.Is(err, kv.ErrCompacted) {
		return result, err
	}
	// The revision of the first page was compacted before the next page was read. A hold prevents this in the
	// second attempt.
	held, release, err := b.Hold(ctx, 0)
	if err != nil {
		return kv.RangeResult{}, err
	}
	defer release()
	req.At = held
	return b.rangeOf(ctx, p, req)
}

// rangeOf reads a range of a prefix with a base.
func (b *Backend) rangeOf(ctx context.Context, p *attachment, req kv.RangeRequest) (kv.RangeResult, error) {
	result := kv.RangeResult{Revision: req.At}
	if req.CountOnly || req.WithCount {
		inBase, err := p.base.Count(ctx, p.relative(req.Start), p.relativeEnd(req.End))
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
	merged := b.merge(p, req.Start, req.End, result.Revision, req.Limit)
	for {
		e, err := merged.Next(ctx)
		if err != nil {
			return kv.RangeResult{}, err
		}
		if e == nil {
			break
		}
		if req.Limit > 0 && len(result.Entries) == req.Limit {
			result.More = true
			break
		}
		result.Entries = append(result.Entries, *e)
	}
	result.Revision = merged.stored.at
	if !result.More && !req.WithCount {
		result.Count = int64(len(result.Entries))
	}
	return result, nil
}

// count returns the number of visible keys of a range, and the revision of the count. Its cost is proportional
// to the number of stored keys.
func (b *Backend) count(ctx context.Context, p *attachment, req kv.RangeRequest, inBase int64) (kv.Revision, int64, error) {
	stored, total := pages{backend: b.Backend, start: req.Start, end: req.End, at: req.At, size: pageSize}, inBase
	for {
		e, err := stored.peek(ctx)
		if e == nil || err != nil {
			return stored.at, total, err
		}
		stored.advance()
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

// merge returns a cursor over the visible entries of [start, end) at a revision; 0 means the newest revision.
// size is the number of entries that the caller needs; 0 means all.
func (b *Backend) merge(p *attachment, start, end string, at kv.Revision, size int) *merged {
	if size == 0 || size >= pageSize {
		size = pageSize
	} else {
		size++ // the last entry determines whether there are more
	}
	return &merged{
		attachment: p,
		stored:     pages{backend: b.Backend, start: start, end: end, at: at, size: size},
		base:       p.base.Scan(p.relative(start), p.relativeEnd(end), size),
	}
}

// merged is a cursor over the visible entries of a range.
type merged struct {
	attachment *attachment
	stored     pages
	base       Cursor
	// below is the next entry of base if readBelow is set; nil at the end of base.
	below     *kv.Entry
	readBelow bool
}

// Next implements Cursor. The keys of the entries are absolute.
func (m *merged) Next(ctx context.Context) (*kv.Entry, error) {
	for {
		own, err := m.stored.peek(ctx) // before base is read, because it determines the revision
		if err != nil {
			return nil, err
		}
		if !m.readBelow {
			if m.below, err = m.base.Next(ctx); err != nil {
				return nil, fmt.Errorf("read the base of %s: %w", m.attachment.prefix, err)
			}
			m.readBelow = true
		}
		below := m.below
		if own == nil || below != nil && below.Key < m.attachment.relative(own.Key) {
			m.readBelow = below == nil // base.Next is not called again after the end
			return m.attachment.entry(below), nil
		}
		if below != nil && below.Key == m.attachment.relative(own.Key) {
			m.readBelow = false
		}
		m.stored.advance()
		if !isTombstone(own) {
			return own, nil
		}
	}
}

// pageSize is the maximum number of stored entries that a cursor reads per request.
const pageSize = 1000

// pages reads the stored entries of a range in pages at one revision.
type pages struct {
	backend    kv.Backend
	start, end string
	at         kv.Revision // 0 until the first page is read, which determines it
	size       int         // number of entries per page

	page []kv.Entry
	done bool // no page follows
}

// peek returns the next entry, or nil at the end.
func (s *pages) peek(ctx context.Context) (*kv.Entry, error) {
	for len(s.page) == 0 && !s.done {
		result, err := s.backend.Range(ctx, kv.RangeRequest{Start: s.start, End: s.end, At: s.at, Limit: s.size})
		if err != nil {
			return nil, err
		}
		s.page, s.done, s.at = result.Entries, !result.More, result.Revision
		if n := len(s.page); n > 0 {
			s.start = s.page[n-1].Key + "\x00"
		}
	}
	if len(s.page) == 0 {
		return nil, nil
	}
	return &s.page[0], nil
}

// advance skips the entry that peek returned.
func (s *pages) advance() { s.page = s.page[1:] }
