package cache

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/storage"
)

// indexed is one object in an index.
type indexed struct {
	value string
	item
}

// indexTree holds objects in the order of a field's values, and those of one
// value in the order of their keys. It is copied as a tree is.
type indexTree = btree.BTreeG[indexed]

// index is the objects of a state by a field. It is built when a list first
// selects by the field, and from then on follows the tree, until it has not been
// read for a while. The state's mu guards it.
type index struct {
	// tree is nil while it is built; waiting are the replacements that came
	// meanwhile.
	tree    *indexTree
	backlog []treeChange
	used    time.Time
}

// treeChange is one change of a tree: what stood at a key, and what stands
// there now. Either record may be nil.
type treeChange struct {
	key           string
	before, after *codec.Record
}

// indexTerm is one value of an indexed field; the zero indexTerm is none.
type indexTerm struct{ field, value string }

// name is that of the index in metrics, kube-apiserver's.
func (c indexTerm) name() string {
	if c.field == "" {
		return ""
	}
	return "f:" + c.field
}

// choiceOf returns the indexed field that a selection requires a value of.
func (c *Cacher) choiceOf(sel *storage.Selection) indexTerm {
	if sel.Fields != nil && sel.End != sel.Start+"\x00" {
		for _, field := range c.indexed {
			if value, ok := sel.Fields.RequiresExactMatch(field); ok {
				return indexTerm{field, value}
			}
		}
	}
	return indexTerm{}
}

// update makes the change in the index. It is false where the field cannot be
// told: the index is of no use then.
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

// indexLocked makes a change of the tree in all indexes.
func (s *watchCache) indexLocked(r treeChange) {
	for field, x := range s.mu.indexes {
		if x.tree == nil {
			x.backlog = append(x.backlog, r)
		} else if !x.update(field, r) {
			delete(s.mu.indexes, field)
		}
	}
}

// byField returns an index of a snapshot, nil where there is none; the objects
// must be gone through then.
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

// copyLocked returns the snapshot's index, which it takes of the state's while
// the snapshot is the newest. building is an index that the caller has to build.
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

// buildIndex returns the index of a tree that is not changed any more.
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
