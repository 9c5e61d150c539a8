package etcd

import (
	"context"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// revisions requests the newest revision from etcd, with one request for all waiting callers. A caller that
// arrives during a request waits for the next one, because a response is only valid for callers that arrived
// before the request.
type revisions struct {
	mu      sync.Mutex
	next    *revisionRequest
	running bool
}

// revisionRequest is one request for the newest revision.
type revisionRequest struct {
	done     chan struct{} // closed after the other fields are set
	revision kv.Revision
	err      error
}

// CurrentRevision implements kv.Backend.
func (s *Store) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	revision, err := s.newest(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the current revision: %w", err)
	}
	return revision, nil
}

func (s *Store) newest(ctx context.Context) (kv.Revision, error) {
	ctx, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return 0, err
	}
	defer leave()
	r := &s.revisions
	r.mu.Lock()
	if r.next == nil {
		r.next = &revisionRequest{done: make(chan struct{})}
	}
	mine := r.next
	if !r.running {
		r.running = true
		s.tasks.Go(s.requestRevisions)
	}
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.revision, mine.err
	case <-ctx.Done():
		if s.ctx.Err() != nil {
			return 0, kv.ErrClosed
		}
		return 0, ctx.Err()
	}
}

// requestRevisions requests revisions until no caller is waiting.
func (s *Store) requestRevisions() {
	r := &s.revisions
	for {
		r.mu.Lock()
		a := r.next
		r.next = nil
		if a == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		a.revision, a.err = s.requestRevision()
		close(a.done)
	}
}

// requestRevision reads the key of the health checks, which this client is permitted to read. The response to
// a linearizable read contains the newest revision, even if the key does not exist.
func (s *Store) requestRevision() (kv.Revision, error) {
	ctx, leave, err := s.beginCall(s.ctx, false)
	if err != nil {
		return 0, kv.ErrClosed
	}
	defer leave()
	resp, err := call(ctx, s, s.smallRead("revision"), func(ctx context.Context, o ...grpc.CallOption) (*pb.RangeResponse, error) {
		return s.rpc.Range(ctx, &pb.RangeRequest{Key: s.healthKey, CountOnly: true}, o...)
	})
	if err != nil {
		return 0, err
	}
	revision := kv.Revision(resp.GetHeader().GetRevision())
	s.recordTime(revision)
	return revision, nil
}

// smallRead returns the parameters of a short read, which is retried on another member.
func (s *Store) smallRead(name string) callSpec {
	return callSpec{name: name, timeout: s.config.RequestTimeout, attempt: s.config.RequestTimeout * 2 / 5, repeat: repeatRead}
}
