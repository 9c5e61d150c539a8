package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// reading is a cursor over the versions at a revision. It retains the store's engine until it is
// closed.
type reading struct {
	versionkey.Cursor
	s *Store
	e *engine
}

// read starts a read of the keys of [start, end) at a revision; 0 selects the newest revision. It determines
// the newest revision before it creates the iterator, so that the iterator contains all data of that
// revision. It reads the compacted revision and the pins after that, so that the data of the iterator cannot
// have been deleted.
func (s *Store) read(ctx context.Context, start, end string, at kv.Revision) (*reading, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	e, err := s.acquireEngine()
	if err != nil {
		return nil, err
	}
	r := &reading{s: s, e: e}
	opts := versionkey.Bounds(start, end)
	for {
		newest := kv.Revision(s.published.Load())
		r.At = at
		if at == 0 {
			r.At = newest
		}
		if err := checkFuture(at, newest); err != nil {
			s.release()
			return nil, err
		}
		if r.Iter, err = e.db.NewIter(&opts); err != nil {
			s.release()
			return nil, e.wrapError("read", err)
		}
		compacted := kv.Revision(s.compacted.Load())
		if r.At >= compacted || s.pins.Load().covers(start, end, r.At) {
			return r, nil
		}
		_ = r.Iter.Close()
		if at != 0 {
			s.release()
			return nil, fmt.Errorf("read at revision %d, the oldest being %d: %w", at, compacted, kv.ErrCompacted)
		}
	}
}

func checkFuture(at, newest kv.Revision) error {
	if at < 0 {
		return fmt.Errorf("revision %d is negative", at)
	}
	if at > newest {
		return fmt.Errorf("read at revision %d, the newest being %d: %w", at, newest, kv.ErrFutureRevision)
	}
	return nil
}

func (r *reading) close() {
	_ = r.Iter.Close()
	r.s.release()
}

// get returns the version of one key, or the zero version if there is none at the revision.
func (r *reading) get(key string) (version, error) {
	if !r.Seek(key) {
		return version{}, r.e.wrapError("read", r.Iter.Error())
	}
	return r.version(key)
}

// version decodes the version at the iterator.
func (r *reading) version(key string) (version, error) {
	_, rev, err := versionkey.Split(r.Iter.Key())
	if err != nil {
		return version{}, r.e.wrapError("read", err)
	}
	raw, err := r.Iter.ValueAndErr()
	if err != nil {
		return version{}, r.e.wrapError("read", err)
	}
	v, err := decodeVersion(key, rev, raw)
	if err != nil {
		return version{}, r.e.wrapError("read", err)
	}
	return v, nil
}

// next moves to the next key that exists at the revision; see Cursor.Next.
func (r *reading) next(first bool) (key []byte, err error) {
	key, err = r.Next(first)
	return key, r.e.wrapError("read", err)
}

// Get implements kv.Backend.
func (s *Store) Get(ctx context.Context, key string, at kv.Revision) (*kv.Entry, kv.Revision, error) {
	if strings.IndexByte(key, 0) >= 0 {
		return nil, 0, fmt.Errorf("get: key %q contains a zero byte", key)
	}
	if at == 0 {
		if err := s.checkOpen(ctx); err != nil {
			return nil, 0, err
		}
		if v, rev, ok := s.newest(key); ok {
			return v.entry, rev, nil
		}
	}
	end := ""
	if at != 0 {
		end = key + "\x00" // a pin can cover only a range with an end
	}
	r, err := s.read(ctx, key, end, at)
	if err != nil {
		return nil, 0, err
	}
	defer r.close()
	v, err := r.get(key)
	if err != nil {
		return nil, 0, err
	}
	return v.entry, r.At, nil
}

// newest returns the newest version of a key and the revision of the lookup. It returns false if the
// version is not in memory, or not durable yet.
func (s *Store) newest(key string) (version, kv.Revision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.mu.recent.get(key)
	published := kv.Revision(s.published.Load())
	return v, published, ok && v.revision <= published
}

// Range implements kv.Backend.
func (s *Store) Range(ctx context.Context, req kv.RangeRequest) (kv.RangeResult, error) {
	if req.Limit < 0 {
		return kv.RangeResult{}, fmt.Errorf("range: limit %d is negative", req.Limit)
	}
	for {
		counted := s.counts.begin(&req)
		res, err := s.rangeAt(ctx, &req, &counted)
		s.counts.end(&req, &counted, &res)
		if req.At == 0 && errors.Is(err, kv.ErrCompacted) {
			continue // the newest revision was compacted in the meantime
		}
		return res, err
	}
}

// rangeAt reads a range at the revision of counted. It counts the keys if the count is requested and unknown.
func (s *Store) rangeAt(ctx context.Context, req *kv.RangeRequest, counted *counting) (kv.RangeResult, error) {
	r, err := s.read(ctx, req.Start, req.End, counted.at)
	if err != nil {
		return kv.RangeResult{}, err
	}
	defer r.close()
	res := kv.RangeResult{Revision: r.At}
	if req.CountOnly && counted.known {
		res.Count = counted.total
		return res, nil
	}
	n := int64(0)
	for first := true; ; first = false {
		key, err := r.next(first)
		if err != nil {
			return kv.RangeResult{}, err
		}
		if key == nil {
			counted.total, counted.known = n, true
			break
		}
		counted.recordPosition(key, n)
		if req.Limit > 0 && len(res.Entries) == req.Limit && !req.CountOnly {
			res.More = true
			if counted.known || !req.WithCount {
				break
			}
		}
		if n++; n%256 == 0 {
			if err := s.checkOpen(ctx); err != nil {
				return kv.RangeResult{}, err
			}
		}
		if res.More || req.CountOnly {
			continue
		}
		v, err := r.version(string(key))
		if err != nil {
			return kv.RangeResult{}, err
		}
		res.Entries = append(res.Entries, *v.entry)
	}
	if req.WithCount || req.CountOnly || !res.More {
		res.Count = counted.total
	}
	return res, nil
}
