package etcd

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Ranges are read in pages. The first page has at most firstPage keys. Each later page has at most maxPage
// keys and about pageBytes, estimated from the size of the previous entries. If etcd supports streams, the
// rest of the range is streamed instead.
const (
	firstPage = 500
	maxPage   = 10000
	pageBytes = 4 << 20
)

// Get implements kv.Backend.
func (s *Store) Get(ctx context.Context, key string, at kv.Revision) (*kv.Entry, kv.Revision, error) {
	ctx, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if err := s.checkCompacted(at); err != nil {
		return nil, 0, fmt.Errorf("get %q: %w", key, err)
	}
	if key == "" {
		// etcd rejects requests for an empty key, which cannot exist.
		at, err = s.resolveRevision(ctx, at)
		return nil, at, err
	}
	resp, err := call(ctx, s, s.smallRead("get"), func(ctx context.Context, o ...grpc.CallOption) (*pb.RangeResponse, error) {
		return s.rpc.Range(ctx, &pb.RangeRequest{Key: []byte(key), Revision: int64(at)}, o...)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("get %q: %w", key, err)
	}
	if at == 0 {
		at = kv.Revision(resp.GetHeader().GetRevision())
	}
	if len(resp.Kvs) == 0 {
		return nil, at, nil
	}
	e := entry(resp.Kvs[0])
	return &e, at, nil
}

func (s *Store) resolveRevision(ctx context.Context, at kv.Revision) (kv.Revision, error) {
	newest, err := s.newest(ctx)
	switch {
	case err != nil:
		return 0, err
	case at > newest:
		return 0, kv.ErrFutureRevision
	case at > 0:
		return at, nil
	}
	return newest, nil
}

// checkCompacted returns an error if a revision is negative, or if it is compacted according to the contract
// of kv. etcd itself retains one older revision; see Compact.
func (s *Store) checkCompacted(at kv.Revision) error {
	if at < 0 {
		return fmt.Errorf("revision %d is negative", at)
	}
	if compacted := s.compacted.Load(); at > 0 && int64(at) < compacted {
		return fmt.Errorf("revision %d was requested, the oldest is %d: %w", at, compacted, kv.ErrCompacted)
	}
	return nil
}

// entry returns an entry that shares the memory of a response.
func entry(e *mvccpb.KeyValue) kv.Entry {
	return kv.Entry{Key: string(e.Key), Value: e.Value, Created: kv.Revision(e.CreateRevision), Modified: kv.Revision(e.ModRevision)}
}

// bounds converts a range to etcd's representation: etcd has no empty key, an empty end selects a single
// key, and the end "\x00" means no end.
func bounds(start, end string) (first, last []byte) {
	if start == "" {
		start = "\x00"
	}
	if end == "" {
		end = "\x00"
	}
	return []byte(start), []byte(end)
}

// isEmptyRange reports whether a range cannot contain a key.
func isEmptyRange(start, end string) bool { return end != "" && start >= end }

// Range implements kv.Backend.
func (s *Store) Range(ctx context.Context, req kv.RangeRequest) (kv.RangeResult, error) {
	if req.Limit < 0 {
		return kv.RangeResult{}, fmt.Errorf("range: limit %d is negative", req.Limit)
	}
	ctx, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return kv.RangeResult{}, err
	}
	defer leave()
	res, err := s.pages(ctx, req)
	if err != nil {
		return kv.RangeResult{}, fmt.Errorf("range [%q, %q): %w", req.Start, req.End, err)
	}
	return res, nil
}

func (s *Store) pages(ctx context.Context, req kv.RangeRequest) (kv.RangeResult, error) {
	if err := s.checkCompacted(req.At); err != nil {
		return kv.RangeResult{}, err
	}
	if isEmptyRange(req.Start, req.End) {
		at, err := s.resolveRevision(ctx, req.At)
		return kv.RangeResult{Revision: at}, err
	}
	res := kv.RangeResult{Revision: req.At}
	start, page, bytes := req.Start, firstPage, 0
	for {
		first, last := bounds(start, req.End)
		ask := &pb.RangeRequest{Key: first, RangeEnd: last, Revision: int64(res.Revision), CountOnly: req.CountOnly, Limit: int64(page)}
		if left := req.Limit - len(res.Entries); req.Limit > 0 && left < page {
			ask.Limit = int64(left)
		}
		resp, err := call(ctx, s, s.largeRead(), func(ctx context.Context, o ...grpc.CallOption) (*pb.RangeResponse, error) {
			return s.rpc.Range(ctx, ask, o...)
		})
		if err != nil {
			return kv.RangeResult{}, err
		}
		if len(res.Entries) == 0 {
			// The count of the first page applies to the whole range.
			res.Count = resp.Count
			if res.Revision == 0 {
				res.Revision = kv.Revision(resp.GetHeader().GetRevision())
			}
			res.Entries = make([]kv.Entry, 0, expectedEntries(req, resp))
		}
		for _, e := range resp.Kvs {
			res.Entries = append(res.Entries, entry(e))
			bytes += len(e.Key) + len(e.Value)
		}
		n := len(res.Entries)
		res.More = resp.More && !req.CountOnly
		if !res.More || n == req.Limit {
			return res, nil
		}
		if s.shouldStream(req) {
			switch streamed, err := s.stream(ctx, req.End, &res); {
			case err != nil:
				return kv.RangeResult{}, err
			case streamed:
				return res, nil
			}
		}
		page = min(max(pageBytes/(bytes/n+1), 1), maxPage)
		start = nextStart(&res)
	}
}

// expectedEntries returns the expected number of entries of a range, based on its first page.
func expectedEntries(req kv.RangeRequest, first *pb.RangeResponse) int64 {
	switch {
	case req.CountOnly:
		return 0
	case req.Limit > 0:
		return min(int64(req.Limit), first.Count)
	}
	return first.Count
}

func (s *Store) largeRead() callSpec {
	return callSpec{name: "range", timeout: 2 * s.config.RequestTimeout, attempt: s.config.RequestTimeout, repeat: repeatRead}
}
