package cache

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// indexEntry is an object in an index.
type indexEntry struct {
	value string
	item
}

// indexTree contains objects ordered by the value of a field, then by key. It is copied on write,
// like the main tree.
type indexTree = btree.BTreeG[indexEntry]

// index contains the objects of a cache by the value of a field. It is built when a list first selects by the
// field, then updated with the tree, and dropped after maxSnapshotAge without use. watchCache.mu guards it.
type index struct {
	// tree is nil while it is built. backlog contains the changes since the build started.
	tree    *indexTree
	backlog []treeChange
	used    time.Time
}

// treeChange is a change of a tree: the records of a key before and after the change. Either may be nil.
type treeChange struct {
	key           string
	before, after *codec.Record
}

// indexTerm is a required value of an indexed field. The zero value means no index.
type indexTerm struct{ field, value string }

// name returns the name of the index in metrics, as in kube-apiserver.
func (c indexTerm) name() string {
	if c.field == "" {
		return ""
	}
	return "f:" + c.field
}

// indexTermOf returns the first indexed field that a selection compares with a value, or the zero value.
func (c *Cacher) indexTermOf(sel *storage.Selection) indexTerm {
	if sel.Fields != nil && sel.End != sel.Start+"\x00" {
		for _, field := range c.indexFields {
			if value, ok := sel.Fields.RequiresExactMatch(field); ok {
				return indexTerm{field, value}
			}
		}
	}
	return indexTerm{}
}

// update applies a change of the tree. It returns false if an object cannot be decoded; the index must then be
// dropped.
func (x *index) update(field string, r treeChange) bool {
	before, err := fieldValue(r.before, field)
	after, err2 := fieldValue(r.after, field)
	if err != nil || err2 != nil {
		return false
	}
	if r.before != nil && (r.after == nil || before != after) {
		x.tree.Delete(indexEntry{before, item{key: r.key}})
	}
	if r.after != nil {
		x.tree.Set(indexEntry{after, item{r.key, r.after}})
	}
	return true
}

// indexLocked applies a change of the tree to all indexes.
func (s *watchCache) indexLocked(r treeChange) {
	for field, x := range s.mu.indexes {
		if x.tree == nil {
			x.backlog = append(x.backlog, r)
		} else if !x.update(field, r) {
			delete(s.mu.indexes, field)
		}
	}
}

// byField returns the index of a snapshot by a field, and builds it if necessary. It returns nil if the list
// must evaluate all objects.
func (s *watchCache) byField(snap *snapshot, field string) *indexTree {
	s.mu.Lock()
	tree, building := s.copyIndexLocked(snap, field)
	s.mu.Unlock()
	if building == nil {
		return tree
	}
	built, err := buildIndex(snap.tree, field)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.indexes[field] != building {
		return built
	}
	if err != nil {
		delete(s.mu.indexes, field)
		return nil
	}
	building.tree = built.Copy()
	snap.indexes[field] = built
	for _, r := range building.backlog {
		if !building.update(field, r) {
			delete(s.mu.indexes, field)
			break
		}
	}
	building.backlog = nil
	return built
}

// copyIndexLocked returns the index of a snapshot. If the snapshot is the newest one, this can be a copy of the
// current index. building is an index that the caller must build; nil if there is nothing to build.
func (s *watchCache) copyIndexLocked(snap *snapshot, field string) (tree *indexTree, building *index) {
	x := s.mu.indexes[field]
	if x != nil {
		x.used = time.Now()
	}
	if tree = snap.indexes[field]; tree != nil || s.mu.newest != snap {
		return tree, nil
	}
	if snap.indexes == nil {
		snap.indexes = map[string]*indexTree{}
	}
	switch {
	case x == nil:
		building = &index{used: time.Now()}
		s.mu.indexes[field] = building
	case x.tree != nil:
		tree = x.tree.Copy()
		snap.indexes[field] = tree
	}
	return tree, building
}

// buildIndex returns the index of an immutable tree, or an error if an object cannot be decoded.
func buildIndex(t *tree, field string) (*indexTree, error) {
	all := make([]indexEntry, 0, t.Len())
	var err error
	t.Scan(func(i item) bool {
		var value string
		value, err = fieldValue(i.record, field)
		all = append(all, indexEntry{value, i})
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, compareIndexEntries)
	built := btree.NewBTreeGOptions(func(a, b indexEntry) bool { return compareIndexEntries(a, b) < 0 }, btree.Options{NoLocks: true})
	for _, i := range all {
		built.Load(i)
	}
	return built, nil
}

func compareIndexEntries(a, b indexEntry) int {
	if n := strings.Compare(a.value, b.value); n != 0 {
		return n
	}
	return strings.Compare(a.key, b.key)
}

// expireIndexesLocked drops the indexes that were last used before limit.
func (s *watchCache) expireIndexesLocked(limit time.Time) {
	for field, x := range s.mu.indexes {
		if x.tree != nil && x.used.Before(limit) {
			delete(s.mu.indexes, field)
		}
	}
}

// recordsWithValue yields the objects in a range whose indexed field has the given value.
func recordsWithValue(t *indexTree, value, start, end string) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		t.Ascend(indexEntry{value, item{key: start}}, func(i indexEntry) bool {
			return i.value == value && (end == "" || i.key < end) && yield(i.record, nil)
		})
	}
}
