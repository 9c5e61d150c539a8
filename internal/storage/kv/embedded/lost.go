package embedded

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// maxUnflushedCommits is the maximum number of commits that exist only in log files, and can therefore be
// lost with a log file. Each commit uses at least 200 bytes of the memtables.
const maxUnflushedCommits = 4 * memTableBytes / 200

// loadAcknowledged loads the state of an engine. It returns ErrLostWrites if the state does not contain
// noted, the acknowledged revision, even if all logs are missing.
func (e *engine) loadAcknowledged(noted kv.Revision) (state, error) {
	st, err := e.loadState()
	if err == nil || errors.Is(err, errNoFormat) && noted > 0 {
		err = e.checkAcknowledged(st, noted)
	}
	return st, err
}

// checkAcknowledged returns ErrLostWrites if the newest revision of the store is older than noted.
func (e *engine) checkAcknowledged(st state, noted kv.Revision) error {
	if st.revision >= noted {
		return nil
	}
	return fmt.Errorf("the store in %s ends at revision %d, but writes up to revision %d were acknowledged; "+
		"its newest log is missing or cut short: put back the .log files that are missing there, or restore a snapshot into another directory: %w",
		e.dir, st.revision, noted, ErrLostWrites)
}

// checkContiguous checks that the last limit commits of the change log have no gap. Each revision has a
// record, except compacted revisions and the first revision of a store.
func (e *engine) checkContiguous(st state, limit int) error {
	from := max(st.trimmed, st.first) + 1
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: logKey(from), UpperBound: []byte{prefixLog + 1}})
	if err != nil {
		return e.wrapError("read the change log", err)
	}
	defer it.Close()
	next := st.revision
	for ok := it.Last(); ok && limit > 0; ok = it.Prev() {
		rev, err := logRevision(it.Key())
		if err != nil {
			return e.wrapError("read the change log", err)
		}
		if rev != next {
			return e.gap(rev, next)
		}
		next--
		limit--
	}
	if err := it.Error(); err != nil {
		return e.wrapError("read the change log", err)
	}
	if limit > 0 && next >= from {
		return e.gap(from-1, next)
	}
	return nil
}

func (e *engine) gap(before, last kv.Revision) error {
	return fmt.Errorf("the store in %s lacks revisions %d to %d; a log is missing or cut short: "+
		"put back the .log files that are missing there, or restore a snapshot into another directory: %w",
		e.dir, before+1, last, ErrLostWrites)
}

// acceptLoss makes a store with lost writes usable. It sets a revision greater than all revisions that
// clients have seen. It deletes the history, which has gaps, including replaced versions, deletions and pins,
// and rebuilds the index of expiring keys. Until the last batch is durable, the loss remains detectable.
func (e *engine) acceptLoss(st state, noted kv.Revision) (kv.Revision, error) {
	m := lossRepair{e: e, b: e.db.NewBatch()}
	_ = m.b.DeleteRange([]byte{prefixExpiry}, []byte{prefixExpiry + 1}, nil)
	if err := m.versions(); err != nil {
		return 0, err
	}
	at := restoredRevision(max(st.revision, noted))
	_ = m.b.DeleteRange([]byte{prefixLog}, []byte{prefixLog + 1}, nil)
	_ = m.b.DeleteRange([]byte{prefixOrigin}, []byte{prefixOrigin + 1}, nil)
	_ = m.b.DeleteRange([]byte{prefixMark}, []byte{prefixMark + 1}, nil)
	_ = m.b.DeleteRange([]byte{prefixPin}, []byte{prefixPin + 1}, nil)
	_ = m.b.DeleteRange([]byte{prefixRetained}, []byte{prefixRetained + 1}, nil)
	_ = m.b.Set([]byte(metaFormat), revisionValue(formatVersion), nil)
	for _, name := range []string{metaRevision, metaCompacted, metaTrimmed} {
		_ = m.b.Set([]byte(name), revisionValue(at), nil)
	}
	return at, e.apply(m.b)
}

// lossRepair performs the changes of acceptLoss.
type lossRepair struct {
	e *engine
	b *pebble.Batch
}

// versions deletes all versions except the newest version of each existing key, and adds expiring keys to
// their index.
func (m *lossRepair) versions() error {
	it, err := m.e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixVersion}, UpperBound: []byte{prefixVersion + 1}})
	if err != nil {
		return m.e.wrapError("read", err)
	}
	defer it.Close()
	last := ""
	for ok := it.First(); ok; ok = it.Next() {
		key, rev, err := versionkey.Split(it.Key())
		if err != nil {
			return m.e.wrapError("read", err)
		}
		raw, err := it.ValueAndErr()
		if err != nil {
			return m.e.wrapError("read", err)
		}
		v, err := decodeVersion(string(key), rev, raw)
		if err != nil {
			return m.e.wrapError("read", err)
		}
		newest := string(key) != last
		last = string(key)
		switch {
		case !newest || v.entry == nil:
			_ = m.b.Delete(it.Key(), nil)
		case v.expires > 0:
			_ = m.b.Set(expiryKey(v.expires, last), revisionValue(rev), nil)
		}
		if m.b.Len() < snapshotChunk {
			continue
		}
		if err := m.e.apply(m.b); err != nil {
			return err
		}
		m.b = m.e.db.NewBatch()
	}
	return m.e.wrapError("read", it.Error())
}
