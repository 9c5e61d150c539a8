package cache

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// maxRecentWrites is the maximum number of recent writes per cache. If a write is not recorded, an update
// that immediately follows it starts with an outdated object and is repeated.
const maxRecentWrites = 64

// Update implements storage.Interface. It starts with the newest object that was cached or written through c.
// The update and its admission are therefore rarely repeated, usually only after a concurrent write.
func (c *Cacher) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	options.Cached = c.newestKnown(name, options.Cached)
	stored := false
	record, err := c.store.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, write, err := update(current)
		stored = err == nil && !write.DryRun && !options.DryRun
		return obj, write, err
	}, options)
	if st := c.loaded.Load(); err == nil && stored && st != nil {
		if key, err := c.store.Key(name); err == nil {
			st.addRecentWrite(key, record)
		}
	}
	return record, err
}

// addRecentWrite stores a written record until its event arrives.
func (s *watchCache) addRecentWrite(key string, record *codec.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if record.Revision() > s.mu.revision && len(s.mu.recentWrites) < maxRecentWrites {
		s.mu.recentWrites[key] = record
	}
}

// dropRecentWriteLocked drops a written record when its event or a later one has arrived.
func (s *watchCache) dropRecentWriteLocked(change *storage.Change) {
	if record := s.mu.recentWrites[change.Key]; record != nil && record.Revision() <= change.Revision {
		delete(s.mu.recentWrites, change.Key)
	}
}

// latest returns the newest known record of an object, from the cache or from a recent write through the
// Cacher. It returns nil if no record is known.
func (s *watchCache) latest(key string) *codec.Record {
	s.touch()
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, _ := s.mu.tree.Get(item{key: key})
	if written := s.mu.recentWrites[key]; written != nil && (found.record == nil || found.record.Revision() < written.Revision()) {
		return written
	}
	return found.record
}
