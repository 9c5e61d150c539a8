package overlay

import (
	"context"
	"math"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// impossible is an Expect that no entry satisfies.
const impossible kv.Revision = math.MaxInt64

// Commit implements kv.Backend.
func (b *Backend) Commit(ctx context.Context, ops ...kv.Op) (kv.CommitResult, error) {
	for {
		stored := make([]kv.Op, len(ops))
		attachments := make([]*attachment, len(ops))
		for i := range ops {
			stored[i] = ops[i]
			if attachments[i] = b.find(ops[i].Key); attachments[i] == nil {
				continue
			}
			if err := b.translate(ctx, attachments[i], &stored[i]); err != nil {
				return kv.CommitResult{}, err
			}
		}
		result, err := b.Backend.Commit(ctx, stored...)
		if err != nil || result.Committed {
			return result, err
		}
		// The entries can be shared with other readers, but the slice is not.
		for i, p := range attachments {
			if p == nil {
				continue
			}
			if result.Current[i], err = p.visible(ctx, ops[i].Key, result.Current[i]); err != nil {
				return kv.CommitResult{}, err
			}
		}
		if conflicts(ops, result.Current) {
			return result, nil
		}
		// A stored key was changed after translate had read it, so the commit is repeated.
	}
}

// translate replaces an operation on a visible key with the equivalent operation on the stored key.
func (b *Backend) translate(ctx context.Context, p *attachment, op *kv.Op) error {
	base, err := p.get(ctx, op.Key)
	if err != nil || base == nil {
		return err
	}
	if op.Expect != 0 && op.Expect != base.Modified && op.Kind != kv.OpDelete {
		return nil // the operation applies to the stored key unchanged
	}
	stored, _, err := b.Backend.Get(ctx, op.Key, 0)
	if err != nil {
		return err
	}
	switch {
	case isTombstone(stored):
		if op.Expect == 0 {
			op.Expect = stored.Modified
		}
		if op.Kind == kv.OpDelete { // the key is already deleted
			op.Kind = kv.OpCheck
		}
		return nil
	case op.Expect == 0:
		op.Expect = impossible
		return nil
	case op.Expect == base.Modified && stored == nil:
		op.Expect = 0
	case op.Expect == kv.AnyRevision: // a second tombstone would be reported as a second deletion
		if op.Expect = 0; stored != nil {
			op.Expect = stored.Modified
		}
	}
	if op.Kind == kv.OpDelete {
		op.Kind, op.Value, op.Removing = kv.OpPut, []byte(Tombstone), true
	}
	return nil
}

// conflicts reports whether a current entry does not satisfy Expect of its operation.
func conflicts(ops []kv.Op, current []*kv.Entry) bool {
	for i := range ops {
		var modified kv.Revision
		if current[i] != nil {
			modified = current[i].Modified
		}
		if ops[i].Expect != kv.AnyRevision && ops[i].Expect != modified {
			return true
		}
	}
	return false
}
