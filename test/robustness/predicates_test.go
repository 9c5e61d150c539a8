package robustness

import "testing"

// TestPredicates checks that each predicate rejects sequences of events that violate it, and accepts other
// sequences.
func TestPredicates(t *testing.T) {
	t.Parallel()
	obj := func(name, group string, revision int64) object {
		return object{name: name, value: name, group: group, revision: revision}
	}
	changes, err := chronicle(nil,
		[]object{obj("a", "x", 2), obj("b", "x", 3), obj("a", "y", 5), obj("b", "x", 6), obj("a", "x", 8)},
		[]object{obj("b", "", 9)})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, revision int64) event { return event{added, obj(name, "x", revision)} }
	mod := func(name string, revision int64) event { return event{modified, obj(name, "x", revision)} }
	del := func(name string, revision int64) event { return event{deleted, obj(name, "x", revision)} }
	mark := func(revision int64) event { return event{bookmark, object{revision: revision}} }
	tests := []struct {
		name    string
		streams []stream
		broken  []string
	}{
		{"all at once", []stream{{from: 1, events: []event{add("a", 2), add("b", 3), del("a", 5), mod("b", 6), add("a", 8), del("b", 9)}}}, nil},
		{"nothing", []stream{{from: 1}}, nil},
		{"resumed", []stream{
			{from: 1, events: []event{add("a", 2), add("b", 3)}},
			{from: 3},
			{from: 3, events: []event{del("a", 5), mark(5)}},
			{from: 5, events: []event{mod("b", 6), mark(7)}},
			{from: 7, events: []event{add("a", 8)}},
		}, nil},
		{"relisted", []stream{
			{from: 1, events: []event{add("a", 2)}},
			{from: 6, events: []event{add("a", 8)}, relisted: true},
		}, nil},
		{"duplicate event", []stream{
			{from: 1, events: []event{add("a", 2), add("b", 3)}},
			{from: 3, events: []event{add("b", 3), del("a", 5)}},
		}, []string{"Unique", "Reliable", "Resumable"}},
		{"missing event", []stream{{from: 1, events: []event{add("a", 2), del("a", 5)}}}, []string{"Reliable"}},
		{"missing event between connections", []stream{
			{from: 1, events: []event{add("a", 2)}},
			{from: 2, events: []event{del("a", 5)}},
		}, []string{"Reliable", "Resumable"}},
		{"resumed elsewhere", []stream{{from: 1, events: []event{add("a", 2)}}, {from: 6}}, []string{"Resumable"}},
		{"out of order", []stream{{from: 1, events: []event{add("b", 3), add("a", 2)}}}, []string{"Ordered", "Reliable", "Resumable"}},
		{"invented event", []stream{{from: 1, events: []event{add("a", 2), add("b", 3), mod("b", 4)}}}, []string{"Atomic", "Reliable"}},
		{"bookmark too early", []stream{{from: 1, events: []event{add("a", 2), mark(3), add("b", 3)}}}, []string{"Bookmarkable"}},
		{"bookmark instead of an event", []stream{{from: 1, events: []event{add("a", 2), mark(3), del("a", 5)}}}, []string{"Reliable", "Bookmarkable"}},
		{"not selected", []stream{{from: 1, events: []event{add("a", 2), add("b", 3), {modified, obj("a", "y", 5)}}}}, []string{"Reliable", "Filterable"}},
	}
	for _, tt := range tests {
		w := watched{selector: selector{group: "x"}, streams: tt.streams}
		want := w.selector.project(changes)
		expected := map[string]bool{}
		for _, name := range tt.broken {
			expected[name] = true
		}
		for _, p := range predicates() {
			if err := p.check(w, want); (err != nil) != expected[p.name] {
				t.Errorf("%s: predicate %s: error %v, want an error: %t", tt.name, p.name, err, expected[p.name])
			}
		}
	}
}

func TestChronicleRejectsInvalidRevisions(t *testing.T) {
	t.Parallel()
	if _, err := chronicle(nil, []object{{name: "a", revision: 2}, {name: "b", revision: 2}}, nil); err == nil {
		t.Error("two writes of one revision were accepted")
	}
	if _, err := chronicle(nil, nil, []object{{name: "a", revision: 2}}); err == nil {
		t.Error("a deletion of a missing object was accepted")
	}
}
