package etcd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// compactKey coordinates compaction among the servers of a cluster, including kube-apiservers. Its
// value is the compacted revision as a decimal number; its version is the number of compactions.
const compactKey = "compact_rev_key"

// Compact implements kv.Backend. A watch from the oldest revision receives the previous values of
// its keys, so etcd must retain one more revision.
func (s *Store) Compact(ctx context.Context, before kv.Revision) error {
	newest, err := s.newest(ctx)
	if err == nil && before > newest {
		err = fmt.Errorf("the newest revision is %d: %w", newest, kv.ErrFutureRevision)
	}
	granted := kv.Revision(0)
	if err == nil {
		granted = s.grant(before)
		err = s.compact(ctx, granted-1)
	}
	if err != nil {
		return fmt.Errorf("compact to revision %d: %w", before, err)
	}
	s.observeCompacted(granted)
	return nil
}

// compactReleased performs the compaction that a hold delayed each time that a hold is released, until Close.
func (s *Store) compactReleased() {
	for {
		select {
		case <-s.holds.Released():
		case <-s.ctx.Done():
			return
		}
		if err := s.Compact(s.ctx, 0); err != nil && s.ctx.Err() == nil {
			s.log.Warn("compact etcd", "err", err)
		}
	}
}

// compact compacts etcd to a revision. It is not an error if etcd is already compacted to this or a later
// revision.
func (s *Store) compact(ctx context.Context, to kv.Revision) error {
	if to <= 0 {
		return nil
	}
	ctx, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return err
	}
	defer leave()
	done := false
	_, err = call(ctx, s, s.largeRead().named("compact"), func(ctx context.Context, _ ...grpc.CallOption) (*clientv3.CompactResponse, error) {
		resp, err := s.client.Compact(ctx, int64(to))
		done = done || isEtcdError(err, rpctypes.ErrCompacted)
		return resp, err
	})
	if done {
		return nil
	}
	return err
}

func (a callSpec) named(name string) callSpec { a.name = name; return a }

// observeCompacted records that history before a revision is compacted.
func (s *Store) observeCompacted(revision kv.Revision) {
	for {
		known := s.compacted.Load()
		if int64(revision) <= known || s.compacted.CompareAndSwap(known, int64(revision)) {
			return
		}
	}
}

// CompactedRevision implements kv.Backend. Compactions by other clients are detected if they use
// kube-apiserver's protocol, or when etcd rejects a watch because of them.
func (s *Store) CompactedRevision(ctx context.Context) (kv.Revision, error) {
	e, _, err := s.Get(ctx, compactKey, 0)
	if err != nil {
		return 0, fmt.Errorf("read the compacted revision: %w", err)
	}
	compacted := kv.Revision(s.compacted.Load())
	if e != nil {
		agreed, err := strconv.ParseInt(string(e.Value), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the compacted revision: %s contains %q: %w", compactKey, e.Value, kv.ErrCorrupt)
		}
		compacted = max(compacted, kv.Revision(agreed))
	}
	return compacted, nil
}

// compactor implements the compaction protocol. In each round, the server that finds compactKey unchanged
// since its last round writes the revision that was the newest one interval ago, and compacts to this
// revision. The other servers find that the key was changed, and do not compact.
type compactor struct {
	version  int64       // of compactKey in the last round
	revision kv.Revision // newest revision at the time of the last round
	agreed   kv.Revision // value of compactKey in the last round; 0 if unknown
}

func (s *Store) compactPeriodically() {
	ticker := time.NewTicker(s.config.CompactionInterval)
	defer ticker.Stop()
	var c compactor
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		next, err := s.compactOnce(s.ctx, c)
		switch {
		case s.ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("compact etcd", "err", err)
		default:
			c = next
		}
	}
}

// compactOnce performs one round. The first round of a client does not compact.
func (s *Store) compactOnce(ctx context.Context, c compactor) (compactor, error) {
	ctx, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return c, err
	}
	defer leave()
	// If this server has holds, it still performs the round, but with an older revision. Without this round,
	// another client would compact to a newer revision.
	to := s.grant(c.revision+1) - 1
	agreed := max(to, c.agreed)
	resp, err := call(ctx, s, s.write("compaction"), func(ctx context.Context, _ ...grpc.CallOption) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.Version(compactKey), "=", c.version)).
			Then(clientv3.OpPut(compactKey, strconv.FormatInt(int64(agreed), 10))).
			Else(clientv3.OpGet(compactKey)).
			Commit()
	})
	if err != nil {
		return c, fmt.Errorf("claim the compaction: %w", err)
	}
	next := compactor{version: c.version + 1, revision: kv.Revision(resp.Header.GetRevision()), agreed: agreed}
	if !resp.Succeeded {
		next.version, next.agreed = 0, 0
		if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
			next.version = kvs[0].Version
			value, _ := strconv.ParseInt(string(kvs[0].Value), 10, 64) // CompactedRevision reports invalid values
			next.agreed = kv.Revision(value)
		}
		return next, nil
	}
	if err := s.compact(ctx, to); err != nil {
		return next, fmt.Errorf("compact to revision %d: %w", to, err)
	}
	if to > 0 {
		s.log.Debug("compacted etcd", "revision", to)
	}
	return next, nil
}
