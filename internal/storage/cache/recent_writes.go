package cache

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// maxWritten bounds the records of writes that a cache has yet to see: beyond it,
// an update that follows so soon starts from the cached object and is tried again.
const maxWritten = 64

// Update implements storage.Interface. It starts with the cached object, or a newer one that was
// written through c, so the update and its admission are repeated only after a concurrent write by
// another server.
func (c *Cacher) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	options.Cached = c.hint(name, options.Cached)
	stored := false
	record, err := c.store.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		stored = err == nil && !write.DryRun && !options.DryRun
		return obj, write, err
	}, options)
	if st := c.loaded.Load(); err == nil && stored && st != nil {
		if key, err := c.store.Key(name); err == nil {
			st.noteWritten(key, record)
		}
	}
	return record, err
}

// noteWritten retains a stored record until its event arrives.
func (s *watchCache) noteWritten(key string, record *codec.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if record.Revision() > s.mu.revision && len(s.mu.written) < maxWritten {
		s.mu.written[key] = record
	}
}

// seenLocked drops a written record after the arrival of its event or a later one.
func (s *watchCache) seenLocked(change *storage.Change) {
	if record := s.mu.written[change.Key]; record != nil && record.Revision() <= change.Revision {
		delete(s.mu.written, change.Key)
	}
}

// latest returns the object for an update: the cached one, or a newer one that was written here;
// nil if there is none.
func (s *watchCache) latest(key string) *codec.Record {
	s.touch()
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, _ := s.mu.tree.Get(item{key: key})
	if written := s.mu.written[key]; written != nil && (found.record == nil || found.record.Revision() < written.Revision()) {
		return written
	}
	return found.record
}
