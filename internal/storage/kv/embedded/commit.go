package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// group contains transactions that share one fsync. It is guarded by Store.mu until nextGroup returns the
// group; then commitLoop owns it.
type group struct {
	batch *pebble.Batch
	db    *pebble.DB // created batch
	// events contains the events of all transactions, in ascending order of revision.
	events      []kv.Event
	first, last kv.Revision
	// expires is the earliest expiration time of the keys of the group, in Unix seconds; 0 if no key expires.
	expires int64
	// done is closed when the group is durable or has failed; err is then the result.
	done chan struct{}
	err  error
}

// Commit implements kv.Backend.
func (s *Store) Commit(ctx context.Context, ops ...kv.Op) (kv.CommitResult, error) {
	if err := ctx.Err(); err != nil {
		return kv.CommitResult{}, err
	}
	if err := validate(ops); err != nil {
		return kv.CommitResult{}, err
	}
	t := txn{ops: ops}
	if err := s.evaluate(&t); err != nil {
		return kv.CommitResult{}, err
	}
	_, span := tracing.Start(ctx, "Wait for disk")
	err := s.waitDurable(ctx, &t)
	span.End(err)
	if err != nil {
		return kv.CommitResult{}, err
	}
	return t.result, nil
}

// maxCommitBytes is the maximum size of a transaction, in bytes. It equals etcd's default limit for requests,
// so that both backends accept the same data.
const maxCommitBytes = 3 << 19

// validate rejects invalid or oversized transactions.
func validate(ops []kv.Op) error {
	if len(ops) == 0 {
		return fmt.Errorf("commit: no operations")
	}
	size := 0
	for i := range ops {
		op := &ops[i]
		size += len(op.Key) + len(op.Value) + len(op.Origin)
		switch {
		case op.Key == "":
			return fmt.Errorf("commit: the key of operation %d is empty", i)
		case strings.IndexByte(op.Key, 0) >= 0:
			return fmt.Errorf("commit: key %q contains a zero byte", op.Key)
		case op.Expect < kv.AnyRevision:
			return fmt.Errorf("commit: key %q expects revision %d", op.Key, op.Expect)
		case op.Kind > kv.OpCheck:
			return fmt.Errorf("commit: key %q has operation kind %d", op.Key, op.Kind)
		}
	}
	if size > maxCommitBytes {
		return fmt.Errorf("commit: %w: it has %d bytes, the limit is %d", kv.ErrTooLarge, size, maxCommitBytes)
	}
	return distinct(ops)
}

func distinct(ops []kv.Op) error {
	if len(ops) > 16 {
		seen := make(map[string]struct{}, len(ops))
		for i := range ops {
			seen[ops[i].Key] = struct{}{}
		}
		if len(seen) < len(ops) {
			return fmt.Errorf("commit: a key is in two operations")
		}
		return nil
	}
	for i := range ops {
		for j := range i {
			if ops[i].Key == ops[j].Key {
				return fmt.Errorf("commit: key %q is in two operations", ops[i].Key)
			}
		}
	}
	return nil
}

// txn is the state of one call of Commit.
type txn struct {
	ops    []kv.Op
	found  []version
	small  [4]version // room for found
	result kv.CommitResult
	// group is the group that must be durable before the result may be returned; nil if the result depends
	// only on durable versions.
	group *group
	// broken is closed when the store rejects writes.
	broken <-chan struct{}
}

// evaluate compares a transaction with the newest state and, if the conditions are satisfied, adds
// it to the pending group. Versions that are not in recent are read from disk without the lock;
// evaluate then only checks, with the lock, that they are still the newest versions.
func (s *Store) evaluate(t *txn) error {
	if len(t.ops) <= len(t.small) {
		t.found = t.small[:len(t.ops)]
	} else {
		t.found = make([]version, len(t.ops))
	}
	at := kv.Revision(-1) // the revision at which versions outside of recent were read
	s.mu.Lock()
	for {
		err := s.rejectionLocked()
		if err == nil && s.mu.full != nil && needsSpace(t.ops) {
			err = fmt.Errorf("commit: %w", s.mu.full)
		}
		if err != nil {
			s.mu.Unlock()
			return err
		}
		missing := false
		for i := range t.ops {
			if v, ok := s.mu.recent.get(t.ops[i].Key); ok {
				t.found[i] = v
			} else if at < s.mu.recent.floor {
				missing = true
			}
		}
		if !missing {
			break
		}
		floor := s.mu.recent.floor
		s.mu.Unlock()
		if at, err = s.readVersions(t, floor); err != nil {
			return err
		}
		s.mu.Lock()
	}
	s.compareLocked(t)
	s.mu.Unlock()
	return nil
}

// readVersions reads the versions of t.found from disk at a revision of at least floor, and returns this
// revision.
func (s *Store) readVersions(t *txn, floor kv.Revision) (at kv.Revision, err error) {
	e, err := s.acquireEngine()
	if err != nil {
		return 0, err
	}
	defer s.release()
	v, err := s.iterator(e, floor, t.creates())
	if err != nil {
		return 0, err
	}
	r := reading{Cursor: versionkey.NewCursor(v.it, v.at, v.buf), s: s, e: e}
	for i := range t.ops {
		if t.found[i], err = r.get(t.ops[i].Key); err != nil {
			_ = v.it.Close()
			return 0, err
		}
	}
	v.buf = r.Buffer()
	e.iterators.put(v)
	return v.at, nil
}

// creates reports whether an operation requires that its key does not exist. The filters of Pebble's last
// level, which has most of the data, avoid reads only for such keys, so Pebble uses them only on request.
func (t *txn) creates() bool {
	return slices.ContainsFunc(t.ops, func(op kv.Op) bool { return op.Expect == 0 })
}

// compareLocked checks each Expect against t.found, which must be complete, and appends the
// transaction to the pending group if all are satisfied.
func (s *Store) compareLocked(t *txn) {
	holds, writes, newest := true, false, kv.Revision(0)
	for i := range t.ops {
		op, v := &t.ops[i], &t.found[i]
		newest = max(newest, v.revision)
		if op.Expect != kv.AnyRevision && op.Expect != modified(v) {
			holds = false
		}
		if op.Kind == kv.OpPut || op.Kind == kv.OpDelete && v.entry != nil {
			writes = true
		}
	}
	t.broken = s.mu.brokenCh
	if holds && writes {
		s.appendLocked(t)
		return
	}
	t.result.Committed = holds
	if !holds {
		t.result.Current = make([]*kv.Entry, len(t.ops))
		for i := range t.found {
			t.result.Current[i] = t.found[i].entry
		}
	}
	// The result must not be returned before the versions that it depends on are durable.
	t.result.Revision = kv.Revision(s.published.Load())
	if newest > t.result.Revision {
		t.result.Revision = s.mu.assigned
		t.group = s.newestGroupLocked()
	}
}

func modified(v *version) kv.Revision {
	if v.entry == nil {
		return 0
	}
	return v.entry.Modified
}

// newestGroupLocked returns the group with the newest assigned revision.
func (s *Store) newestGroupLocked() *group {
	if s.mu.pending != nil {
		return s.mu.pending
	}
	return s.mu.writing
}

// appendLocked assigns a revision to the transaction and adds it to the pending group.
func (s *Store) appendLocked(t *txn) {
	g := s.mu.pending
	if g == nil {
		g = &group{batch: s.mu.db.NewBatch(), db: s.mu.db, first: s.mu.assigned + 1, done: make(chan struct{})}
		s.mu.pending = g
		s.mu.work.Signal()
	}
	s.mu.assigned++
	rev := s.mu.assigned
	g.last = rev
	logLen, origin := 0, originOf(t.ops)
	for i := range t.ops {
		logLen += s.applyLocked(g, &t.ops[i], &t.found[i], rev, origin)
	}
	if len(origin) > 0 {
		_ = g.batch.Set(originKey(rev), origin, nil)
	}
	putLogRecord(g.batch, t, rev, logLen)
	s.mu.recent.forget(rev, kv.Revision(s.published.Load()))
	t.group = g
	t.result = kv.CommitResult{Committed: true, Revision: rev}
}

// originOf returns the first non-empty origin of the operations, or nil.
func originOf(ops []kv.Op) []byte {
	for i := range ops {
		if len(ops[i].Origin) > 0 {
			return ops[i].Origin
		}
	}
	return nil
}

// applyLocked adds an operation to the group and returns the size of its change in the log record, or 0 if it
// changes nothing.
func (s *Store) applyLocked(g *group, op *kv.Op, was *version, rev kv.Revision, origin []byte) int {
	if op.Kind == kv.OpCheck {
		// Other transactions probably check the same key, for example the namespace of a new object, and need
		// not read it.
		if _, ok := s.mu.recent.get(op.Key); !ok {
			s.mu.recent.put(op.Key, *was)
		}
		return 0
	}
	if op.Kind == kv.OpDelete && was.entry == nil {
		return 0
	}
	if was.expires > 0 {
		_ = g.batch.Delete(expiryKey(was.expires, op.Key), nil)
	}
	ev := kv.Event{Key: op.Key, Revision: rev, Prev: was.entry, Origin: origin, Note: op.Note}
	now := version{revision: rev}
	if op.Kind == kv.OpDelete {
		ev.Deleted = true
		tombstone := g.batch.SetDeferred(versionkey.Len(op.Key), len(deletedVersion()))
		versionkey.Put(tombstone.Key, op.Key, rev)
		copy(tombstone.Value, deletedVersion())
		_ = tombstone.Finish()
	} else {
		now = s.putLocked(g, op, was, rev)
		ev.Value, ev.Created, ev.Expires = now.entry.Value, now.entry.Created, now.expires
	}
	s.mu.recent.put(op.Key, now)
	g.events = append(g.events, ev)
	return changeLen(change{key: op.Key, previous: modified(was)})
}

func (s *Store) putLocked(g *group, op *kv.Op, was *version, rev kv.Revision) version {
	e := &kv.Entry{Key: op.Key, Value: op.Value, Created: rev, Modified: rev}
	if e.Value == nil {
		e.Value = []byte{}
	}
	if was.entry != nil {
		e.Created = was.entry.Created
	}
	now := version{entry: e, revision: rev}
	if op.TTL > 0 {
		now.expires = expirySecond(s.simulation.Now(), op.TTL)
		_ = g.batch.Set(expiryKey(now.expires, op.Key), revisionValue(rev), nil)
		if g.expires == 0 || now.expires < g.expires {
			g.expires = now.expires
		}
	}
	putVersion(g.batch, e, now.expires)
	return now
}

// putVersion adds a version to a batch. It encodes the version directly into the batch.
func putVersion(b *pebble.Batch, e *kv.Entry, expires int64) {
	w := b.SetDeferred(versionkey.Len(e.Key), versionHeaderLen(e.Created, e.Modified, expires)+len(e.Value))
	versionkey.Put(w.Key, e.Key, e.Modified)
	copy(putVersionHeader(w.Value, e.Created, e.Modified, expires), e.Value)
	_ = w.Finish()
}

// putLogRecord adds the log record of a transaction to the batch.
func putLogRecord(b *pebble.Batch, t *txn, rev kv.Revision, length int) {
	w := b.SetDeferred(9, length)
	w.Key[0] = prefixLog
	binary.BigEndian.PutUint64(w.Key[1:], uint64(rev))
	rest := w.Value
	for i := range t.ops {
		op, was := &t.ops[i], &t.found[i]
		if op.Kind == kv.OpCheck || op.Kind == kv.OpDelete && was.entry == nil {
			continue
		}
		rest = putChange(rest, change{key: op.Key, previous: modified(was), deleted: op.Kind == kv.OpDelete})
	}
	_ = w.Finish()
}

// waitDurable waits until the writes of a transaction, or the versions that its result depends on, are
// durable.
func (s *Store) waitDurable(ctx context.Context, t *txn) error {
	if t.group == nil {
		return nil
	}
	select {
	case <-t.group.done:
		return t.group.err
	case <-t.broken:
	case <-ctx.Done():
	}
	select {
	case <-t.group.done:
		return t.group.err
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit: outcome unknown: %w", err)
	}
	return fmt.Errorf("commit: outcome unknown: %w", kv.ErrUnavailable)
}

// commitLoop writes one group after another until Close. It is the only writer of groups.
func (s *Store) commitLoop() {
	for {
		g := s.nextGroup()
		if g == nil {
			return
		}
		s.publish(g, s.sync(g))
	}
}

// nextGroup waits for a group to write; nil means that the store is closing and no group is left.
func (s *Store) nextGroup() *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.mu.pending == nil {
		if s.mu.closed {
			return nil
		}
		s.mu.work.Wait()
	}
	g := s.mu.pending
	s.mu.pending, s.mu.writing = nil, g
	return g
}

// sync makes a group durable.
func (s *Store) sync(g *group) error {
	e, err := s.acquireEngine()
	if err != nil {
		return err
	}
	defer s.release()
	if e.db != g.db {
		return errReopening // another write failed, and the store was reopened
	}
	began := time.Now()
	s.stall.begin(began)
	size := g.batch.Len()
	err = e.apply(g.batch)
	took := time.Since(began)
	if err == nil {
		s.acks.record(g.last)
		s.checkSpaceAfter(e, size)
	}
	s.stall.end(took)
	s.metrics.observeGroup(len(g.events), took)
	return err
}

// publish makes a durable group visible to reads and watches. If err is not nil, it fails the transactions of
// the group.
func (s *Store) publish(g *group, err error) {
	s.mu.Lock()
	s.mu.writing = nil
	g.err = err
	if err == nil {
		s.counts.publish(g.events, g.last)
	}
	s.mu.Unlock()
	if err == nil {
		s.ring.append(g)
		s.expiries.wake(g.expires)
	}
	close(g.done)
}
