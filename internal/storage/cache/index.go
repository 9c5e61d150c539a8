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

// indexed is an entry of an index.
type indexed struct {
	value string
	item
}

// indexTree contains objects ordered by the value of a field, then by key. It is copied on write,
// like the main tree.
type indexTree = btree.BTreeG[indexed]

// index is the objects of a cache by a field. It is built when a list first selects
// by the field, then updated with the tree, and dropped when it was not read for a
// while. watchCache.mu guards it.
type index struct {
	// tree is nil while it is built; backlog are the changes of the
	// tree since the build began.
	tree    *indexTree
	backlog []treeChange
	used    time.Time
}

// treeChange is a change of a tree: the records at a key before and after. Either
// may be nil.
type treeChange struct {
	key           string
	before, after *codec.Record
}

// indexTerm is a value of an indexed field. The zero value means no index.
type indexTerm struct{ field, value string }

// name is the index's name in metrics, as in kube-apiserver.
func (c indexTerm) name() string {
	if c.field == "" {
		return ""
	}
	return "f:" + c.field
}

// indexTermOf returns the first indexed field that a selection requires one value
// of.
func (c *Cacher) indexTermOf(sel *storage.Selection) indexTerm {
	if sel.Fields != nil && sel.End != sel.Start+"\x00" {
		for _, field := range c.indexed {
			if value, ok := sel.Fields.RequiresExactMatch(field); ok {
				return indexTerm{field, value}
			}
		}
	}
	return indexTerm{}
}

// update applies a change of the tree. It is false where the field's value cannot
// be determined; the index must be dropped then.
func (x *index) update(field string, r treeChange) bool {
	before, err := fieldValue(r.before, field)
	after, err2 := fieldValue(r.after, field)
	if err != nil || err2 != nil {
		return false
	}
	if r.before != nil && (r.after == nil || before != after) {
		x.tree.Delete(indexed{before, item{key: r.key}})
	}
	if r.after != nil {
		x.tree.Set(indexed{after, item{r.key, r.after}})
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

// byField returns an index of a snapshot, or nil if the list must evaluate all objects.
func (s *watchCache) byField(of *snapshot, field string) *indexTree {
	s.mu.Lock()
	tree, building := s.copyLocked(of, field)
	s.mu.Unlock()
	if building == nil {
		return tree
	}
	built, err := buildIndex(of.tree, field)
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
	of.indexes[field] = built
	for _, r := range building.backlog {
		if !building.update(field, r) {
			delete(s.mu.indexes, field)
			break
		}
	}
	building.backlog = nil
	return built
}

// copyLocked returns the snapshot's index, a copy of the cache's while the snapshot
// is the newest. building is an index that the caller must build.
func (s *watchCache) copyLocked(of *snapshot, field string) (tree *indexTree, building *index) {
	x := s.mu.indexes[field]
	if x != nil {
		x.used = time.Now()
	}
	if tree = of.indexes[field]; tree != nil || s.mu.newest != of {
		return tree, nil
	}
	if of.indexes == nil {
		of.indexes = map[string]*indexTree{}
	}
	switch {
	case x == nil:
		building = &index{used: time.Now()}
		s.mu.indexes[field] = building
	case x.tree != nil:
		tree = x.tree.Copy()
		of.indexes[field] = tree
	}
	return tree, building
}

// buildIndex returns the index of an immutable tree.
func buildIndex(t *tree, field string) (*indexTree, error) {
	all := make([]indexed, 0, t.Len())
	var err error
	t.Scan(func(i item) bool {
		var value string
		value, err = fieldValue(i.record, field)
		all = append(all, indexed{value, i})
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, compareIndexed)
	built := btree.NewBTreeGOptions(func(a, b indexed) bool { return compareIndexed(a, b) < 0 }, btree.Options{NoLocks: true})
	for _, i := range all {
		built.Load(i)
	}
	return built, nil
}

func compareIndexed(a, b indexed) int {
	if n := strings.Compare(a.value, b.value); n != 0 {
		return n
	}
	return strings.Compare(a.key, b.key)
}

// expireIndexesLocked drops the indexes that were last read before a time.
func (s *watchCache) expireIndexesLocked(limit time.Time) {
	for field, x := range s.mu.indexes {
		if x.tree != nil && x.used.Before(limit) {
			delete(s.mu.indexes, field)
		}
	}
}

// recordsWith yields the objects of a range with a value in the index's field.
func recordsWith(t *indexTree, value, start, end string) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		t.Ascend(indexed{value, item{key: start}}, func(i indexed) bool {
			return i.value == value && (end == "" || i.key < end) && yield(i.record, nil)
		})
	}
}
