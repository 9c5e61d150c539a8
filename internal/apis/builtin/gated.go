package builtin

import (
	"reflect"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
)

// GatedFields declares the fields of a type that belong to a feature gate. O is a pointer to the type. While
// the gate is disabled, the fields are dropped from written objects, including their status, unless the old
// object uses them.
type GatedFields[O any] struct {
	Gate feature.Gate
	// Visit calls VisitField for all fields of the feature.
	Visit func(v *FieldVisitor, obj O)
	// Default sets defaults while the gate is enabled; it may be nil. It runs after the defaults of
	// the row.
	Default func(obj O)
}

// FieldVisitor detects whether an object uses a feature, or clears the fields of the feature. It is
// not safe for concurrent use.
type FieldVisitor struct{ clear, found bool }

// Clears reports whether VisitField clears fields. If Clears returns false, the object may be shared, so Visit
// must not write back values that cannot be modified in place, such as map values.
func (v *FieldVisitor) Clears() bool { return v.clear }

// VisitField clears a field, or records that the field is used. A field with a zero value is not used.
func VisitField[T any](v *FieldVisitor, field *T) {
	value := reflect.ValueOf(field).Elem()
	if value.IsZero() {
		return
	}
	if v.found = true; v.clear {
		value.SetZero()
	}
}

// DropDisabledFields clears the fields of disabled features in obj, unless old uses them. On creation, old is
// the zero value of O, which is a nil pointer.
func DropDisabledFields[O comparable](gates feature.Gates, all []GatedFields[O], obj, old O) {
	var absent O
	clearing, detecting := &FieldVisitor{clear: true}, &FieldVisitor{}
	for i := range all {
		g := &all[i]
		if gates.Enabled(g.Gate) {
			continue
		}
		if detecting.found = false; old != absent {
			g.Visit(detecting, old)
		}
		if !detecting.found {
			g.Visit(clearing, obj)
		}
	}
}

// defaultsFor returns a function that sets the defaults of a row and then of its enabled features. It returns
// nil if there are no defaults.
func (s *Strategy[O]) defaultsFor(gates feature.Gates) func(O) {
	all := s.Default
	for i := range s.GatedFields {
		g, first := &s.GatedFields[i], all
		switch {
		case g.Default == nil || !gates.Enabled(g.Gate):
		case first == nil:
			all = g.Default
		default:
			all = func(obj O) {
				first(obj)
				g.Default(obj)
			}
		}
	}
	return all
}

// dropDisabled clears the fields of disabled features, and the fields that the emulated version lacks. old is
// nil on creation.
func (r *resource) dropDisabled(env *Env, kind *codec.Kind, obj, old codec.Object) {
	DropDisabledFields(env.Gates, r.Strategy.GatedFields, obj, old)
	env.built.lacking[kind].Drop(obj, old)
}
