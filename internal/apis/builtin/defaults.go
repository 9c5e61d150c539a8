package builtin

// SetDefault sets a nil pointer to a new copy of value. It allocates no memory if the pointer is set.
func SetDefault[T any](field **T, value T) {
	if *field == nil {
		*field = new(value)
	}
}

// SetDefaultValue sets a field that has the zero value of its type.
func SetDefaultValue[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
