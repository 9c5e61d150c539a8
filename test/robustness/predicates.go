package robustness

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// change is the effect of one revision on one object. before is nil if the revision created the object, and
// after is nil if it deleted the object.
type change struct {
	revision      int64
	name          string
	before, after *object
}

// selector specifies which objects a watch selects. The zero value selects all objects.
type selector struct {
	group string // value of the label group
	name  string // name of the object
}

func (s selector) String() string {
	switch {
	case s.group != "":
		return "group=" + s.group
	case s.name != "":
		return "metadata.name=" + s.name
	}
	return "everything"
}

func (s selector) selects(o *object) bool {
	return o != nil && (s.group == "" || o.group == s.group) && (s.name == "" || o.name == s.name)
}

// Types of watch events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
)

// event is one event of a watch. The object of a bookmark has only a revision.
type event struct {
	kind string
	object
}

func (e event) String() string {
	return fmt.Sprintf("%s %s %d %q", e.kind, e.name, e.revision, e.value)
}

// project returns the events that a watch with this selector must deliver for changes.
func (s selector) project(changes []change) []event {
	var events []event
	for _, c := range changes {
		before, after := s.selects(c.before), s.selects(c.after)
		switch {
		case before && after:
			events = append(events, event{modified, *c.after})
		case after:
			events = append(events, event{added, *c.after})
		case before:
			gone := *c.before
			gone.revision = c.revision
			events = append(events, event{deleted, gone})
		}
	}
	return events
}

// stream is one connection of a watch. events are the events that it received after the revision from, until
// the connection ended.
type stream struct {
	from   int64
	events []event
	// relisted reports whether from is the revision of a new list, because the last revision of the previous
	// stream had expired.
	relisted bool
}

// position returns the revision after which the next connection continues.
func (s stream) position() int64 {
	if n := len(s.events); n > 0 {
		return s.events[n-1].revision
	}
	return s.from
}

// watched contains the events that one watcher received over all its connections.
type watched struct {
	selector selector
	streams  []stream
}

// predicate is a guarantee of watches. check returns an error if w violates the guarantee. want contains the
// events that a single uninterrupted connection would have received from w's first revision on.
type predicate struct {
	name  string
	check func(w watched, want []event) error
}

// predicates returns the guarantees of watches. Their names are the names in etcd's robustness tests.
func predicates() []predicate {
	return []predicate{
		{"Ordered", isOrdered},
		{"Unique", isUnique},
		{"Atomic", isAtomic},
		{"Reliable", isReliable},
		{"Resumable", isResumable},
		{"Bookmarkable", isBookmarkable},
		{"Filterable", isFilterable},
	}
}

// check checks all predicates.
func (w watched) check(changes []change) error {
	want := w.selector.project(changes)
	var errs []error
	for _, p := range predicates() {
		if err := p.check(w, want); err != nil {
			errs = append(errs, fmt.Errorf("watch of %s: not %s: %w", w.selector, p.name, err))
		}
	}
	return errors.Join(errs...)
}

// isOrdered checks that revisions never decrease within a connection.
func isOrdered(w watched, _ []event) error {
	for _, s := range w.streams {
		for i, e := range s.events {
			if last := (stream{from: s.from, events: s.events[:i]}).position(); e.revision < last {
				return fmt.Errorf("%s after revision %d", e, last)
			}
		}
	}
	return nil
}

// isUnique checks that no change is delivered twice, even over several connections.
func isUnique(w watched, _ []event) error {
	type id struct {
		name     string
		revision int64
	}
	received := map[id]bool{}
	for _, s := range w.streams {
		for _, e := range s.events {
			if e.kind == bookmark {
				continue
			}
			if this := (id{e.name, e.revision}); received[this] {
				return fmt.Errorf("%s twice", e)
			} else {
				received[this] = true
			}
		}
	}
	return nil
}

// isAtomic checks that the changes of one revision are delivered together, without other events
// between them.
func isAtomic(w watched, want []event) error {
	for _, s := range w.streams {
		for i := 0; i < len(s.events); {
			e := s.events[i]
			n := i
			for n < len(s.events) && s.events[n].revision == e.revision && s.events[n].kind != bookmark {
				n++
			}
			if n == i { // a bookmark
				i++
				continue
			}
			if whole := between(want, e.revision-1, e.revision); len(whole) != n-i {
				return fmt.Errorf("%d events of revision %d at a time, which has %d", n-i, e.revision, len(whole))
			}
			i = n
		}
	}
	return nil
}

// between returns the events whose revision is greater than after and at most to.
func between(events []event, after, to int64) []event {
	start := sort.Search(len(events), func(i int) bool { return events[i].revision > after })
	end := sort.Search(len(events), func(i int) bool { return events[i].revision > to })
	return events[start:max(start, end)]
}

// isReliable checks that a connection delivers all events between its start and its last event, and no other
// events.
func isReliable(w watched, want []event) error {
	for _, s := range w.streams {
		got := changesOf(s.events)
		due := between(want, s.from, s.position())
		for i := range max(len(got), len(due)) {
			switch {
			case i >= len(got):
				return fmt.Errorf("from %d to %d: %s is missing", s.from, s.position(), due[i])
			case i >= len(due):
				return fmt.Errorf("from %d to %d: %s is too much", s.from, s.position(), got[i])
			case got[i] != due[i]:
				return fmt.Errorf("from %d to %d: got %s, want %s", s.from, s.position(), got[i], due[i])
			}
		}
	}
	return nil
}

func changesOf(events []event) []event {
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool { return e.kind == bookmark })
}

// isResumable checks that a connection that continues after the last event of another connection starts with
// the next event.
func isResumable(w watched, want []event) error {
	for i, s := range w.streams {
		if i > 0 && !s.relisted && s.from != w.streams[i-1].position() {
			return fmt.Errorf("resumed from %d, the connection before ended at %d", s.from, w.streams[i-1].position())
		}
		got := changesOf(s.events)
		if len(got) == 0 {
			continue
		}
		next := sort.Search(len(want), func(i int) bool { return want[i].revision > s.from })
		if next == len(want) || want[next] != got[0] {
			return fmt.Errorf("resumed from %d with %s", s.from, got[0])
		}
	}
	return nil
}

// isBookmarkable checks that all events up to a bookmark are delivered before the bookmark.
func isBookmarkable(w watched, want []event) error {
	for _, s := range w.streams {
		for i, e := range s.events {
			if e.kind != bookmark {
				continue
			}
			before := changesOf(s.events[:i])
			if due := between(want, s.from, e.revision); len(before) < len(due) {
				return fmt.Errorf("the bookmark of %d came before %s", e.revision, due[len(before)])
			}
			if after := slices.IndexFunc(s.events[i:], func(e2 event) bool { return e2.kind != bookmark && e2.revision <= e.revision }); after >= 0 {
				return fmt.Errorf("%s after the bookmark of %d", s.events[i+after], e.revision)
			}
		}
	}
	return nil
}

// isFilterable checks that only selected events are delivered.
func isFilterable(w watched, _ []event) error {
	for _, s := range w.streams {
		for _, e := range s.events {
			if e.kind != bookmark && !w.selector.selects(&e.object) {
				return fmt.Errorf("%s of group %q", e, e.group)
			}
		}
	}
	return nil
}

// chronicle converts written objects (puts) and deletions, each with its revision, to a list of changes that is
// sorted by revision. before contains the initial objects, keyed by name.
func chronicle(before map[string]object, puts, deletions []object) ([]change, error) {
	changes := make([]change, 0, len(puts)+len(deletions))
	for _, o := range puts {
		changes = append(changes, change{revision: o.revision, name: o.name, after: &o})
	}
	for _, o := range deletions {
		changes = append(changes, change{revision: o.revision, name: o.name})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	at := make(map[string]*object, len(before))
	for name, o := range before {
		at[name] = &o
	}
	for i := range changes {
		c := &changes[i]
		if i > 0 && c.revision == changes[i-1].revision {
			return nil, fmt.Errorf("two writes have revision %d, of %s and %s", c.revision, changes[i-1].name, c.name)
		}
		c.before = at[c.name]
		if c.before == nil && c.after == nil {
			return nil, fmt.Errorf("%s was deleted at revision %d, when there was none", c.name, c.revision)
		}
		at[c.name] = c.after
	}
	return changes, nil
}
