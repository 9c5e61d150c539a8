package builtin

// Fill sets a nil pointer to a new copy of value. It does not change or allocate anything
// otherwise.
func Fill[T any](field **T, value T) {
	if *field == nil {
		*field = new(value)
	}
}

// FillEmpty sets a field that has the zero value of its type.
func FillEmpty[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
