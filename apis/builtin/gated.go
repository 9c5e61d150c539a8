package builtin

import (
	"reflect"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/feature"
)

// Gated are the fields of a kind that belong to a feature. While the feature is off
// they are dropped from what is written, the status included, except from objects
// that have them already: those were written when it was on.
type Gated[T any] struct {
	Gate feature.Gate
	// Fields takes all fields of the feature.
	Fields func(u *Use, obj *T)
	// Default fills in what a client may leave out, while the feature is on; nil:
	// nothing. It runs after the row's.
	Default func(obj *T)
}

// Use finds out whether an object uses a feature, or takes it away.
type Use struct{ drop, found bool }

// Drops reports whether fields are taken away. An object that is only asked may be
// shared: what cannot be taken in its place, such as a value in a map, is written
// back only then.
func (u *Use) Drops() bool { return u.drop }

// Take takes one field. The zero value of its type is no use.
func Take[T any](u *Use, field *T) {
	value := reflect.ValueOf(field).Elem()
	if value.IsZero() {
		return
	}
	if u.found = true; u.drop {
		value.SetZero()
	}
}

// gatedFields are Gated without their type.
type gatedFields struct {
	gate     feature.Gate
	fields   func(u *Use, obj codec.Object)
	defaults func(obj codec.Object) // may be nil
}

func untypedGated[T any, P object[T]](all []Gated[T]) []gatedFields {
	var out []gatedFields
	for _, g := range all {
		out = append(out, gatedFields{g.Gate, func(u *Use, obj codec.Object) { g.Fields(u, typed[T, P](obj)) }, onOne[T, P](g.Default)})
	}
	return out
}

// dropDisabled drops the fields of features that are off, but for those that old
// uses, which is nil on creation.
func (k *kindRow) dropDisabled(env *Env, obj, old codec.Object) {
	for i := range k.gated {
		g := &k.gated[i]
		if env.Gates.Enabled(g.gate) {
			continue
		}
		before := Use{}
		if old != nil {
			g.fields(&before, old)
		}
		if !before.found {
			g.fields(&Use{drop: true}, obj)
		}
	}
}

// defaultsOf returns the defaults of a row together with those of the features that
// are on; nil: there are none.
func (k *kindRow) defaultsOf(gates feature.Gates) func(codec.Object) {
	all := k.defaults
	for i := range k.gated {
		g, first := &k.gated[i], all
		switch {
		case g.defaults == nil || !gates.Enabled(g.gate):
		case first == nil:
			all = g.defaults
		default:
			all = func(obj codec.Object) {
				first(obj)
				g.defaults(obj)
			}
		}
	}
	return all
}
