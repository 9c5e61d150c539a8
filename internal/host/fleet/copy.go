package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// A fork copies the objects of its source if the store cannot retain the state of the source. This is the case
// for etcd, which has no pins, and for states that only the history contains. The fork is ready when all
// objects are copied. Several servers may reconcile the fork, so the copying server holds a lock. The lock is a
// key that each commit of the copying server replaces. It expires after a crash.

// copyLockTTL is the time after which another server may take over the copy if the copying server has stopped.
const copyLockTTL = time.Minute

// errCopyInterrupted reports that another server copies the source.
var errCopyInterrupted = errors.New("copy the source: another server has taken over the copy")

// copying is the copy of one source by this server.
type copying struct {
	fleet *Fleet
	lock  string      // key
	held  kv.Revision // revision of the lock
}

// commit applies operations and renews the lock. It returns errCopyInterrupted if the lock is no longer held.
func (c *copying) commit(ctx context.Context, ops ...kv.Op) error {
	refreshed := kv.Op{Key: c.lock, Kind: kv.OpPut, Value: []byte("copying"), Expect: c.held, TTL: copyLockTTL}
	result, err := c.fleet.config.Backend.Backend.Commit(ctx, append(ops, refreshed)...)
	if err != nil {
		return fmt.Errorf("copy the source: %w", err)
	}
	if !result.Committed {
		return errCopyInterrupted
	}
	c.held = result.Revision
	return nil
}

// release deletes the lock after a failure, so that the next attempt need not wait until the lock expires.
func (c *copying) release() {
	ctx, cancel := context.WithTimeout(c.fleet.lifetime, copyLockTTL)
	defer cancel()
	_, _ = c.fleet.config.Backend.Backend.Commit(ctx, kv.Op{Key: c.lock, Kind: kv.OpDelete, Expect: c.held})
}

// copySource copies the state of a source to the prefix of a fork. store contains the objects of the source,
// and below is the initial content of the source. guard contains operations that the caller must add to the
// commit that completes the fork; they fail if another server has taken over the copy.
func (f *Fleet) copySource(ctx context.Context, p planeKey, store kv.Backend, source *layer, below *content) (guard []kv.Op, err error) {
	c := &copying{fleet: f, lock: f.folder(p.uid) + controlplanes.CopyKey}
	if err := c.commit(ctx); errors.Is(err, errCopyInterrupted) {
		return nil, &sourceError{"Copying", "another server copies the objects of the source"}
	} else if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	if keys, err := f.readKeys(ctx, p); keys != nil || err != nil {
		return nil, errors.Join(err, errCopyInterrupted) // another server completed the copy before the lock was acquired
	}
	f.logger.Info("copying the objects of the source of a fork", "name", p.name)
	if err := f.deletePrefix(ctx, f.prefixOf(p.uid), 1, c.commit); err != nil { // delete the objects of an interrupted copy
		return nil, fmt.Errorf("copy the source: %w", err)
	}
	_, unhold, err := store.Hold(ctx, source.Revision)
	if err != nil {
		return nil, fmt.Errorf("copy the source: %w", err)
	}
	defer unhold()
	base, err := f.base(ctx, source.UID, below)
	if err != nil {
		return nil, err
	}
	from, to := f.prefixOf(source.UID), f.prefixOf(p.uid)
	copied, err := c.copyObjects(ctx, f.newForkBase(overlay.NewLayer(store, from, source.Revision, base), from, to))
	if err != nil {
		return nil, err
	}
	f.logger.Info("copied the objects of the source of a fork", "name", p.name, "objects", copied)
	return []kv.Op{{Key: c.lock, Kind: kv.OpDelete, Expect: c.held}}, nil
}

// maxCopyBytes is the maximum total size of the values that one commit copies, in bytes. Only a single larger
// value may exceed it. Stores accept commits of up to 1.5 MiB.
const maxCopyBytes = 512 << 10

// copyObjects writes all objects of a base below the prefix of the fork, and returns their number.
func (c *copying) copyObjects(ctx context.Context, from *forkBase) (copied int, err error) {
	var ops []kv.Op
	size := 0
	objects := from.Scan("", "", deletionOps)
	for {
		e, err := objects.Next(ctx)
		if err != nil {
			return 0, fmt.Errorf("copy the source: %w", err)
		}
		if len(ops) > 0 && (e == nil || len(ops) == deletionOps || size+len(e.Value) > maxCopyBytes) {
			if err := c.commit(ctx, ops...); err != nil {
				return 0, err
			}
			copied += len(ops)
			ops, size = nil, 0
		}
		if e == nil {
			return copied, nil
		}
		ops = append(ops, kv.Op{Key: from.to + e.Key, Kind: kv.OpPut, Value: e.Value})
		size += len(e.Value)
	}
}
