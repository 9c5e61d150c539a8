package etcd

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// streamRecheck is the time after which RangeStream is tried again if etcd did not support it, because the
// members may have been upgraded in the meantime.
const streamRecheck = 10 * time.Minute

// shouldStream reports whether the rest of a range should be read with RangeStream, which etcd supports since
// version 3.7 (KEP-5966). etcd counts the keys of the range for each page, but only once for a stream, which
// it sends in parts.
func (s *Store) shouldStream(req kv.RangeRequest) bool {
	return !s.config.NoRangeStream && req.Limit == 0 && !req.CountOnly && time.Now().UnixNano() >= s.noStreamUntil.Load()
}

// stream appends the entries that follow the entries of res, at the revision of res. It returns false if etcd
// does not support streams. After an error, res contains the entries received before the error.
func (s *Store) stream(ctx context.Context, end string, res *kv.RangeResult) (bool, error) {
	for {
		outcome, err := call(ctx, s, s.streamRead(), func(ctx context.Context, _ ...grpc.CallOption) (streamOutcome, error) {
			return s.receive(ctx, end, res)
		})
		switch {
		case err != nil:
			return true, err
		case outcome == streamEnded:
			res.More = false
			return true, nil
		case outcome == streamUnsupported:
			s.noStreamUntil.Store(time.Now().Add(streamRecheck).UnixNano())
			return false, nil
		}
	}
}

type streamOutcome int

const (
	streamEnded       streamOutcome = iota // the stream ended at the end of the range
	streamPaused                           // half of the request timeout has passed; the next stream continues
	streamUnsupported                      // this etcd does not support streams
)

// receive appends the entries of one stream to res. It uses no call options, because an abandoned
// stream would still write to them.
func (s *Store) receive(ctx context.Context, end string, res *kv.RangeResult) (streamOutcome, error) {
	ctx, cancel := context.WithCancel(ctx) // cancel ends the stream
	defer cancel()
	enough := time.Now().Add(s.config.RequestTimeout / 2)
	first, last := bounds(nextStart(res), end)
	stream, err := s.rpc.RangeStream(ctx, &pb.RangeRequest{Key: first, RangeEnd: last, Revision: int64(res.Revision)})
	if err != nil {
		return streamEnded, err
	}
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return streamEnded, nil
		case code(err) == codes.Unimplemented:
			return streamUnsupported, nil
		case err != nil:
			return streamEnded, err
		}
		for _, e := range part.GetRangeResponse().GetKvs() {
			res.Entries = append(res.Entries, entry(e))
		}
		if time.Now().After(enough) {
			return streamPaused, nil
		}
	}
}

// nextStart returns the start of the range after the last entry of res.
func nextStart(res *kv.RangeResult) string { return res.Entries[len(res.Entries)-1].Key + "\x00" }

func (s *Store) streamRead() callSpec {
	read := s.largeRead()
	read.name = "range_stream"
	return read
}
