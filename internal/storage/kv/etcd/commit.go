package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Commit implements kv.Backend.
func (s *Store) Commit(ctx context.Context, ops ...kv.Op) (kv.CommitResult, error) {
	if err := checkOps(ops); err != nil {
		return kv.CommitResult{}, fmt.Errorf("commit: %w", err)
	}
	ctx, leave, err := s.beginCall(ctx, true)
	if err != nil {
		return kv.CommitResult{}, err
	}
	defer leave()
	removeOrigin := s.origins.add(ops)
	res, err := s.commit(ctx, ops)
	if errors.Is(err, errLeaseNotFound) {
		// The transaction was not performed, because etcd no longer has the lease, for example after a
		// restore.
		res, err = s.commit(ctx, ops)
	}
	if err != nil {
		return kv.CommitResult{}, fmt.Errorf("commit of %q: %w", ops[0].Key, err)
	}
	if !res.Committed {
		removeOrigin()
	}
	return res, nil
}

func checkOps(ops []kv.Op) error {
	if len(ops) == 0 {
		return errors.New("no operations")
	}
	var seen map[string]bool
	if len(ops) > 1 {
		seen = make(map[string]bool, len(ops))
	}
	for _, op := range ops {
		switch {
		case op.Key == "":
			return errors.New("a key is empty")
		case op.Expect < kv.AnyRevision:
			return fmt.Errorf("key %q is expected at revision %d", op.Key, op.Expect)
		case seen[op.Key]:
			return fmt.Errorf("key %q is in two operations", op.Key)
		case op.Kind > kv.OpCheck:
			return fmt.Errorf("operation %d on key %q is not known", op.Kind, op.Key)
		case seen != nil:
			seen[op.Key] = true
		}
	}
	return nil
}

// errLeaseNotFound reports that etcd no longer has a lease that this client reuses.
var errLeaseNotFound = errors.New("etcd does not have the lease")

func (s *Store) commit(ctx context.Context, ops []kv.Op) (kv.CommitResult, error) {
	txn, err := s.transaction(ctx, ops)
	if err != nil {
		return kv.CommitResult{}, err
	}
	var gone error
	resp, err := call(ctx, s, s.write("commit"), func(ctx context.Context, o ...grpc.CallOption) (*pb.TxnResponse, error) {
		resp, err := s.rpc.Txn(ctx, txn, o...)
		if err != nil && isEtcdError(err, rpctypes.ErrLeaseNotFound) {
			gone = errLeaseNotFound
		}
		return resp, err
	})
	if gone != nil {
		s.leases.forget()
		return kv.CommitResult{}, gone
	}
	if err != nil {
		return kv.CommitResult{}, err
	}
	s.full.Store(false)
	res := kv.CommitResult{Committed: resp.Succeeded, Revision: kv.Revision(resp.GetHeader().GetRevision())}
	if resp.Succeeded {
		return res, nil
	}
	res.Current = make([]*kv.Entry, len(ops))
	for i, found := range resp.Responses {
		if kvs := found.GetResponseRange().GetKvs(); len(kvs) > 0 {
			e := entry(kvs[0])
			res.Current[i] = &e
		}
	}
	return res, nil
}

// write returns the parameters of a write. By default, the timeout is 8 s, which is longer than etcd's own
// timeout for writes (7 s). After the timeout, the outcome is unknown.
func (s *Store) write(name string) callSpec {
	return callSpec{name: name, timeout: s.config.RequestTimeout * 8 / 5, repeat: repeatWrite}
}

// transaction converts ops to an etcd transaction. If an expectation is not satisfied, the transaction reads
// the keys instead.
func (s *Store) transaction(ctx context.Context, ops []kv.Op) (*pb.TxnRequest, error) {
	txn := &pb.TxnRequest{}
	for _, op := range ops {
		key := []byte(op.Key)
		if op.Expect != kv.AnyRevision {
			txn.Compare = append(txn.Compare, &pb.Compare{
				Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
				TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(op.Expect)},
			})
		}
		switch op.Kind {
		case kv.OpPut:
			put := &pb.PutRequest{Key: key, Value: op.Value}
			if op.TTL > 0 {
				lease, err := s.lease(ctx, op.TTL)
				if err != nil {
					return nil, err
				}
				put.Lease = lease
			}
			txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
		case kv.OpDelete:
			txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}})
		}
	}
	if len(txn.Compare) == 0 {
		return txn, nil
	}
	for _, op := range ops {
		txn.Failure = append(txn.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
			RequestRange: &pb.RangeRequest{Key: []byte(op.Key)}}})
	}
	return txn, nil
}

// ceilSeconds returns the duration in seconds, rounded up, so that keys never expire early.
func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
