package validation

// smallList is the maximum number of elements for which a linear search is used. For so few elements, a linear
// search is faster than a map and allocates no memory.
const smallList = 16

// Duplicates finds duplicates in a list in linear time. The zero value is ready to use, and does not allocate
// memory for short lists. Duplicates is not safe for concurrent use.
type Duplicates[T comparable] struct {
	few  [smallList]T
	n    int
	many map[T]struct{}
}

// NewDuplicates returns a Duplicates with capacity for n elements.
func NewDuplicates[T comparable](n int) Duplicates[T] {
	if n <= smallList {
		return Duplicates[T]{}
	}
	return Duplicates[T]{many: make(map[T]struct{}, n)}
}

// Has reports whether a value has been added.
func (s *Duplicates[T]) Has(value T) bool {
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

// IsDuplicate adds a value. It reports whether the value had been added before.
func (s *Duplicates[T]) IsDuplicate(value T) bool {
	if s.many != nil {
		if _, present := s.many[value]; present {
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
