package builtin

import (
	"reflect"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
)

// Gated contains the fields of a kind that belong to a feature. While the feature is disabled, they
// are dropped from written objects, including the status, unless the old object has them.
type Gated[T any] struct {
	Gate feature.Gate
	// Fields calls Take for all fields of the feature.
	Fields func(u *Use, obj *T)
	// Default sets defaults while the feature is enabled; may be nil. It runs after the row's
	// defaults.
	Default func(obj *T)
}

// Use determines whether an object uses a feature, or removes its fields.
type Use struct{ drop, found bool }

// Drops reports whether fields are removed. Otherwise, the object may be shared, so values that
// cannot be modified in place, such as map values, must be written back only if Drops returns true.
func (u *Use) Drops() bool { return u.drop }

// Take clears a field or records its use. The zero value of its type does not count as use.
func Take[T any](u *Use, field *T) {
	value := reflect.ValueOf(field).Elem()
	if value.IsZero() {
		return
	}
	if u.found = true; u.drop {
		value.SetZero()
	}
}

// DropDisabled clears the fields of disabled features, except those that old uses. old is nil on
// creation.
func DropDisabled[T any](gates feature.Gates, all []Gated[T], obj, old *T) {
	drop, before := &Use{drop: true}, &Use{}
	for i := range all {
		g := &all[i]
		if gates.Enabled(g.Gate) {
			continue
		}
		if before.found = false; old != nil {
			g.Fields(before, old)
		}
		if !before.found {
			g.Fields(drop, obj)
		}
	}
}

// gatedFields are all Gated of a kind, without its type.
type gatedFields struct {
	drop     func(gates feature.Gates, obj, old codec.Object) // nil without gated fields
	defaults []gatedDefaults
}

type gatedDefaults struct {
	gate feature.Gate
	set  func(obj codec.Object)
}

func untypedGated[T any, P object[T]](all []Gated[T]) gatedFields {
	var out gatedFields
	if len(all) > 0 {
		out.drop = func(gates feature.Gates, obj, old codec.Object) {
			var before *T
			if old != nil {
				before = typed[T, P](old)
			}
			DropDisabled(gates, all, typed[T, P](obj), before)
		}
	}
	for _, g := range all {
		if g.Default != nil {
			out.defaults = append(out.defaults, gatedDefaults{g.Gate, onOne[T, P](g.Default)})
		}
	}
	return out
}

// dropDisabled clears the fields of disabled features, except those that old uses. old is nil on
// creation.
func (k *kindRow) dropDisabled(env *Env, obj, old codec.Object) {
	if k.gated.drop != nil {
		k.gated.drop(env.Gates, obj, old)
	}
}

// defaultsOf returns the defaults of a row and of enabled features, or nil if there are no
// defaults.
func (k *kindRow) defaultsOf(gates feature.Gates) func(codec.Object) {
	all := k.defaults
	for i := range k.gated.defaults {
		g, first := &k.gated.defaults[i], all
		switch {
		case !gates.Enabled(g.gate):
		case first == nil:
			all = g.set
		default:
			all = func(obj codec.Object) {
				first(obj)
				g.set(obj)
			}
		}
	}
	return all
}
