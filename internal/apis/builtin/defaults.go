package builtin

// SetDefault sets *field to a pointer to a copy of value if *field is nil. Otherwise it does nothing and
// allocates no memory.
func SetDefault[T any](field **T, value T) {
	if *field == nil {
		*field = new(value)
	}
}

// SetDefaultValue sets *field to value if *field is the zero value of its type.
func SetDefaultValue[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
