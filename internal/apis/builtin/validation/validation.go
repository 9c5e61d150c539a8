// Package validation is what the rules of built-in kinds are written with. A rule
// is a function of a Field, which is a place in the object that is being
// validated, and of the values found there, now and before:
//
//	func validatePort(f validation.Field, port, old *corev1.ServicePort) {
//		f.Child("port").PortNumber(port.Port)
//		validation.OneOf(f.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP)
//	}
//
// The same function serves creation (old is nil) and update. It says what is
// wrong and returns nothing; where nothing is wrong, nothing is allocated: a
// Field is two words, and becomes a path only when there is a fault to report.
// The checks here are those that many kinds share; the words of their errs
// are kube-apiserver's, by way of apimachinery's field.Error.
package validation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/feature"
)

// maxErrors is how many errs of one object are reported. A client reads a few;
// an object with a hundred thousand would cost more to refuse than to store.
const maxErrors = 1000

// Validator runs rules. It is safe for concurrent use.
type Validator struct {
	// DenyPrivileged rejects privileged containers, as kube-apiserver does without
	// --allow-privileged. Set it before use.
	DenyPrivileged bool

	gates   feature.Gates
	options map[string]bool // gates, for rules that are declared
	objects sync.Pool       // *object, to be used again
}

// NewValidator returns a Validator with feature gates.
func NewValidator(gates feature.Gates) *Validator {
	return &Validator{gates: gates, options: declaredOptions(gates)}
}

// Validate runs rules on one object and returns their errs, at most a thousand.
// The Field it passes is the object itself; it is not valid after rules returned.
func (v *Validator) Validate(ctx context.Context, rules func(Field)) field.ErrorList {
	o, _ := v.objects.Get().(*object)
	if o == nil {
		o = &object{validator: v}
	}
	o.ctx, o.places, o.errs = ctx, append(o.places[:0], place{parent: -1}), nil
	rules(Field{object: o})
	errs := o.errs
	o.ctx, o.errs = nil, nil
	v.objects.Put(o)
	return errs
}

// object is one object on its way through its rules.
type object struct {
	ctx       context.Context
	validator *Validator
	places    []place
	errs      field.ErrorList
}

// place is a step of a path: a name, an element or a key below its parent.
type place struct {
	parent int32 // in object.places; -1: this is the object itself
	kind   step
	index  int32
	name   string
}

type step uint8

const (
	child step = iota
	element
	keyed
)

// Field is a place in an object that is being validated, and where errs found
// there go. It is passed by value and belongs to the one goroutine that runs the
// rules.
type Field struct {
	object *object
	at     int32
}

// Child returns the field of a name, as JSON has it.
func (f Field) Child(name string) Field { return f.below(place{kind: child, name: name}) }

// Index returns an element of a list.
func (f Field) Index(i int) Field { return f.below(place{kind: element, index: int32(i)}) }

// Key returns an element of a map, or of a list with keys.
func (f Field) Key(key string) Field { return f.below(place{kind: keyed, name: key}) }

func (f Field) below(p place) Field {
	p.parent = f.at
	f.object.places = append(f.object.places, p)
	return Field{f.object, int32(len(f.object.places) - 1)}
}

// Path returns the place as apimachinery writes it, which allocates. It is nil
// for the object itself.
func (f Field) Path() *field.Path {
	p := f.object.places[f.at]
	if p.parent < 0 {
		return nil
	}
	parent := Field{f.object, p.parent}.Path()
	switch {
	case p.kind == element:
		return parent.Index(int(p.index))
	case p.kind == keyed:
		return parent.Key(p.name)
	case parent == nil:
		return field.NewPath(p.name)
	}
	return parent.Child(p.name)
}

// Context returns the request's context. Rules that compute for long look at it.
func (f Field) Context() context.Context { return f.object.ctx }

// Enabled reports whether a feature gate is on.
func (f Field) Enabled(gate feature.Gate) bool { return f.object.validator.gates.Enabled(gate) }

// DenyPrivileged reports whether privileged containers are rejected.
func (f Field) DenyPrivileged() bool { return f.object.validator.DenyPrivileged }

// Faults returns how many errs of the object were found so far, for rules that
// only go on where others were met.
func (f Field) ErrorCount() int { return len(f.object.errs) }

// Violates reports whether rules find errors, and drops these. It is for rules that are newer than
// stored objects: if the old object breaks a rule, the new one may as well.
func (f Field) Violates(rules func(Field)) bool {
	kept := f.object.errs
	f.object.errs = nil
	rules(f)
	broken := len(f.object.errs) > 0
	f.object.errs = kept
	return broken
}

// Add reports errors of a library, with complete paths.
func (f Field) Add(errs ...*field.Error) {
	room := max(0, maxErrors-len(f.object.errs))
	f.object.errs = append(f.object.errs, errs[:min(room, len(errs))]...)
}

// Required reports that a value is missing.
func (f Field) Required(detail string) { f.Add(field.Required(f.Path(), detail)) }

// Invalid reports an invalid value.
func (f Field) Invalid(value any, detail string) { f.Add(field.Invalid(f.Path(), value, detail)) }

// Forbidden reports that the field must not be set, or not like this.
func (f Field) Forbidden(detail string) { f.Add(field.Forbidden(f.Path(), detail)) }

// Duplicate reports that another element has the value already.
func (f Field) Duplicate(value any) { f.Add(field.Duplicate(f.Path(), value)) }

// NotFound reports a reference to a missing object.
func (f Field) NotFound(value any) { f.Add(field.NotFound(f.Path(), value)) }

// TooLong reports a text of more than max bytes.
func (f Field) TooLong(max int) { f.Add(field.TooLong(f.Path(), "", max)) }

// TooMany reports a list of n elements that may have max.
func (f Field) TooMany(n, max int) { f.Add(field.TooMany(f.Path(), n, max)) }
