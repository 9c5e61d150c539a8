package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Snapshot implements kv.Backend. The snapshot contains all keys of etcd, in the format of "etcdctl
// snapshot save" and "etcdutl snapshot restore": a database followed by its SHA-256, which is
// verified. It contains the returned revision, and possibly newer revisions.
func (s *Store) Snapshot(ctx context.Context, w io.Writer) (kv.Revision, error) {
	ctx, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return 0, err
	}
	defer leave()
	client, revision, err := s.member(ctx)
	if err == nil {
		err = errors.Join(s.snapshot(ctx, client, w), client.Close())
	}
	switch {
	case err == nil:
		return revision, nil
	case s.ctx.Err() != nil:
		return 0, kv.ErrClosed
	case ctx.Err() != nil:
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("snapshot: %w", err)
}

// member returns a client of a single member, and a revision that this member has reached. Other members
// may have newer revisions.
func (s *Store) member(ctx context.Context) (*clientv3.Client, kv.Revision, error) {
	var errs []error
	for _, endpoint := range s.config.Endpoints {
		client, err := s.newClient(endpoint)
		if err != nil {
			return nil, 0, err
		}
		resp, err := call(ctx, s, s.smallRead("revision"), func(ctx context.Context, o ...grpc.CallOption) (*pb.RangeResponse, error) {
			return pb.NewKVClient(client.ActiveConnection()).Range(ctx, &pb.RangeRequest{Key: s.healthKey, CountOnly: true}, o...)
		})
		if err == nil {
			return client, kv.Revision(resp.GetHeader().GetRevision()), nil
		}
		_ = client.Close() // the client has no pending requests
		errs = append(errs, err)
	}
	return nil, 0, errors.Join(errs...)
}

func (s *Store) snapshot(ctx context.Context, client *clientv3.Client, w io.Writer) error {
	resp, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return s.explain(ctx, s.largeRead(), err)
	}
	defer resp.Snapshot.Close()
	to := checksumWriter{w: w, sum: sha256.New()}
	if _, err := io.Copy(&to, resp.Snapshot); err != nil {
		if to.failed {
			return fmt.Errorf("write: %w", err)
		}
		return s.explain(ctx, s.largeRead(), err)
	}
	return to.check()
}

// checksumWriter is an io.Writer that forwards a snapshot and verifies the checksum at its end.
type checksumWriter struct {
	w      io.Writer
	sum    hash.Hash
	tail   []byte // the last bytes, which may be the sum
	failed bool   // a write to w failed
}

func (s *checksumWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.failed = true
		return n, err
	}
	s.tail = append(s.tail, p...)
	if more := len(s.tail) - sha256.Size; more > 0 {
		_, _ = s.sum.Write(s.tail[:more]) // hash.Write never returns an error
		s.tail = append(s.tail[:0], s.tail[more:]...)
	}
	return n, nil
}

func (s *checksumWriter) check() error {
	if !bytes.Equal(s.tail, s.sum.Sum(nil)) {
		return fmt.Errorf("the checksum of etcd's snapshot is wrong: %w", kv.ErrCorrupt)
	}
	return nil
}

// VerifySnapshot reads a snapshot of etcd to its end and returns an error if its checksum is wrong.
func VerifySnapshot(r io.Reader) error {
	s := checksumWriter{w: io.Discard, sum: sha256.New()}
	if _, err := io.Copy(&s, r); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("this is not a whole snapshot of etcd: %w", kv.ErrCorrupt)
	}
	return nil
}
