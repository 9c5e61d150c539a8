package validation

// smallList is the number of elements up to which a linear search is faster than a map, and needs
// no memory.
const smallList = 16

// Seen finds duplicates in linear time. The zero value is ready for a short list; NewSeen has a
// capacity.
type Seen[T comparable] struct {
	few  [smallList]T
	n    int
	many map[T]struct{}
}

// NewSeen returns a Seen for a list of n elements.
func NewSeen[T comparable](n int) Seen[T] {
	if n <= smallList {
		return Seen[T]{}
	}
	return Seen[T]{many: make(map[T]struct{}, n)}
}

// Has reports whether a value was added, without adding it.
func (s *Seen[T]) Has(value T) bool {
	if s.many != nil {
		_, has := s.many[value]
		return has
	}
	for i := range s.n {
		if s.few[i] == value {
			return true
		}
	}
	return false
}

// Again adds a value, and reports whether it was added before.
func (s *Seen[T]) Again(value T) bool {
	if s.many != nil {
		if _, again := s.many[value]; again {
			return true
		}
		s.many[value] = struct{}{}
		return false
	}
	for i := range s.n {
		if s.few[i] == value {
			return true
		}
	}
	if s.n == smallList {
		s.many = make(map[T]struct{}, 2*smallList)
		for _, v := range s.few {
			s.many[v] = struct{}{}
		}
		s.many[value] = struct{}{}
		return false
	}
	s.few[s.n] = value
	s.n++
	return false
}
