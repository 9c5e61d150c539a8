package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// manyEntries is a number of entries that do not fit in one response. The first page contains 5 MB.
const manyEntries = 1700

func putMany(t *testing.T, s *Store) {
	t.Helper()
	value := bytes.Repeat([]byte("v"), 10_000)
	for i := 0; i < manyEntries; {
		var ops []kv.Op
		for range 100 {
			ops = append(ops, kv.Op{Key: manyKey(i), Value: value})
			i++
		}
		if _, err := s.Commit(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
}

func manyKey(i int) string { return fmt.Sprintf("/a/%05d", i) }

var manyRange = kv.RangeRequest{Start: "/a/", End: "/a0"}

func checkMany(t *testing.T, res kv.RangeResult, limit int) {
	t.Helper()
	want := manyEntries
	if limit > 0 {
		want = min(limit, manyEntries)
	}
	if len(res.Entries) != want || res.Count != manyEntries || res.More != (want < manyEntries) {
		t.Errorf("limit %d: %d entries, more %t, count %d", limit, len(res.Entries), res.More, res.Count)
	}
	for i, e := range res.Entries {
		if e.Key != manyKey(i) {
			t.Fatalf("limit %d: entry %d is %s", limit, i, e.Key)
		}
	}
}

// TestPages checks that a range larger than one response is read at one revision, in pages or as a
// stream.
func TestPages(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	putMany(t, open(t, Config{Endpoints: c.URLs()}))
	for _, pages := range []bool{false, true} {
		s := open(t, Config{Endpoints: c.URLs(), NoRangeStream: pages})
		rpc := observeStreams(s)
		for _, limit := range []int{0, 1, firstPage, firstPage + 1, manyEntries - 1, manyEntries, manyEntries + 1} {
			req := manyRange
			req.Limit = limit
			res, err := s.Range(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			checkMany(t, res, limit)
		}
		if streamed := rpc.streams.Load() > 0; streamed == pages {
			t.Errorf("NoRangeStream is %t, streamed: %t", pages, streamed)
		}
	}
}

// observedKV counts requests and injects errors into streams.
type observedKV struct {
	pb.KVClient
	ranges, streams atomic.Int64
	// open is called with the number of each stream, counted from 1, before the stream is opened.
	open func(n int64) error
	// part is called before each response of a stream is returned.
	part func(stream, part int64) error
}

// observeStreams must be called before the store is used.
func observeStreams(s *Store) *observedKV {
	o := &observedKV{KVClient: s.rpc}
	s.rpc = o
	return o
}

func (o *observedKV) Range(ctx context.Context, req *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	o.ranges.Add(1)
	return o.KVClient.Range(ctx, req, opts...)
}

func (o *observedKV) RangeStream(ctx context.Context, req *pb.RangeRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[pb.RangeStreamResponse], error) {
	n := o.streams.Add(1)
	if o.open != nil {
		if err := o.open(n); err != nil {
			return nil, err
		}
	}
	stream, err := o.KVClient.RangeStream(ctx, req, opts...)
	return &observedStream{ServerStreamingClient: stream, of: o, stream: n}, err
}

type observedStream struct {
	grpc.ServerStreamingClient[pb.RangeStreamResponse]
	of           *observedKV
	stream, part int64
}

func (s *observedStream) Recv() (*pb.RangeStreamResponse, error) {
	got, err := s.ServerStreamingClient.Recv()
	if err != nil || s.of.part == nil {
		return got, err
	}
	s.part++
	if err := s.of.part(s.stream, s.part); err != nil {
		return nil, err
	}
	return got, nil
}

// TestStreamBreaks checks that a broken stream is resumed after the last received entry, at its
// initial revision.
func TestStreamBreaks(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	putMany(t, s)
	rpc := observeStreams(s)
	rpc.part = func(stream, part int64) error {
		if stream > 2 || part == 1 {
			return nil
		}
		// The list must not contain these changes, because they are newer.
		last := kv.Op{Key: manyKey(manyEntries + int(stream)), Value: []byte("new")}
		first := kv.Op{Key: manyKey(0), Kind: kv.OpDelete, Expect: kv.AnyRevision}
		if _, err := s.Commit(t.Context(), first, last); err != nil {
			t.Error(err)
		}
		return status.Error(codes.Unavailable, "the member went away")
	}
	res, err := s.Range(t.Context(), manyRange)
	if err != nil {
		t.Fatal(err)
	}
	checkMany(t, res, 0)
	if rpc.ranges.Load() != 1 || rpc.streams.Load() < 3 { // an election also breaks streams
		t.Errorf("%d pages and %d streams", rpc.ranges.Load(), rpc.streams.Load())
	}
}

// TestStreamUnsupported checks that the store tries to stream once and then reads in pages, if etcd
// does not support streams.
func TestStreamUnsupported(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	putMany(t, s)
	rpc := observeStreams(s)
	rpc.part = func(int64, int64) error { return status.Error(codes.Unimplemented, "unknown method RangeStream") }
	for range 3 {
		res, err := s.Range(t.Context(), manyRange)
		if err != nil {
			t.Fatal(err)
		}
		checkMany(t, res, 0)
	}
	if got := rpc.streams.Load(); got != 1 {
		t.Errorf("%d streams were requested", got)
	}
}

// TestStreamCompacted checks that a compaction during a stream results in an error, not in a
// partial list.
func TestStreamCompacted(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	putMany(t, s)
	rpc := observeStreams(s)
	rpc.open = func(int64) error {
		if _, err := s.client.Compact(t.Context(), int64(mustPut(t, s, "/b", "1"))); err != nil {
			t.Error(err)
		}
		return nil
	}
	if res, err := s.Range(t.Context(), manyRange); !errors.Is(err, kv.ErrCompacted) || len(res.Entries) > 0 {
		t.Errorf("%d entries and %v", len(res.Entries), err)
	}
}
