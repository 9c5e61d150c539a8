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

// streamRecheck is for how long an etcd without RangeStream is not asked for it again: its
// members may be replaced by newer ones.
const streamRecheck = 10 * time.Minute

// mayStream reports whether what is left of a range is to be asked for by RangeStream,
// which etcd has since 3.7 (KEP-5966). etcd counts the keys of a range anew for
// each page of it; a stream is counted once, and sent in parts while it is read.
func (s *Store) mayStream(req kv.RangeRequest) bool {
	return !s.config.NoRangeStream && req.Limit == 0 && !req.CountOnly && time.Now().UnixNano() >= s.streamless.Load()
}

// stream reads what follows the entries of res, all at the revision of res. It reports false when this etcd
// has no streams; res has what came until then, as it has with an error.
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
		case outcome == streamUnknown:
			s.streamless.Store(time.Now().Add(streamRecheck).UnixNano())
			return false, nil
		}
	}
}

type streamOutcome int

const (
	streamEnded   streamOutcome = iota // with the range
	streamLeft                         // after half of the time that a request has: the next stream goes on
	streamUnknown                      // to this etcd
)

// receive appends what one stream brings to res. It takes no call options: a stream that is left
// would still write to them.
func (s *Store) receive(ctx context.Context, end string, res *kv.RangeResult) (streamOutcome, error) {
	ctx, cancel := context.WithCancel(ctx) // which is how a stream is left
	defer cancel()
	enough := time.Now().Add(s.config.RequestTimeout / 2)
	first, last := bounds(after(res), end)
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
			return streamUnknown, nil
		case err != nil:
			return streamEnded, err
		}
		for _, e := range part.GetRangeResponse().GetKvs() {
			res.Entries = append(res.Entries, entry(e))
		}
		if time.Now().After(enough) {
			return streamLeft, nil
		}
	}
}

// after is where the keys behind a part of a range begin.
func after(res *kv.RangeResult) string { return res.Entries[len(res.Entries)-1].Key + "\x00" }

func (s *Store) streamRead() callSpec {
	read := s.largeRead()
	read.name = "range_stream"
	return read
}
