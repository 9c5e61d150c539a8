package extension

import (
	"maps"
	"slices"
	"strconv"
	"sync"
)

// object is the JSON form of an object.
type object = map[string]any

// store contains apples by namespace and name.
type store struct {
	mu       sync.Mutex
	revision int
	objects  map[string]object
	changed  chan struct{} // closed with the next change
	events   []object
}

func newStore() *store { return &store{objects: map[string]object{}, changed: make(chan struct{})} }

// create stores an apple. It returns false if the apple has no name or already exists.
func (s *store) create(namespace string, apple object) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	metadata, _ := apple["metadata"].(object)
	if metadata == nil {
		metadata = object{}
	}
	name, _ := metadata["name"].(string)
	key := namespace + "/" + name
	if _, taken := s.objects[key]; taken || name == "" {
		return nil, false
	}
	s.revision++
	metadata["namespace"], metadata["uid"] = namespace, "uid-"+name
	metadata["resourceVersion"], metadata["creationTimestamp"] = strconv.Itoa(s.revision), "2026-01-01T00:00:00Z"
	apple["metadata"], apple["apiVersion"], apple["kind"] = metadata, Group+"/"+Version, "Apple"
	s.objects[key] = apple
	s.events = append(s.events, object{"type": "ADDED", "object": apple})
	close(s.changed)
	s.changed = make(chan struct{})
	return apple, true
}

func (s *store) get(namespace, name string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[namespace+"/"+name]
}

func (s *store) list() []object {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []object{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		list = append(list, s.objects[key])
	}
	return list
}

// since returns all events except the first n, and a channel that is closed when the next event is added.
func (s *store) since(n int) ([]object, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events[n:]), s.changed
}
