// Package validation provides the framework and common checks for the validation rules of built-in kinds. A
// rule is a function whose arguments are a Field, which is a path in the validated object, and the current and
// previous value of this field:
//
//	func validatePort(f validation.Field, port, old *corev1.ServicePort) {
//		f.Child("port").PortNumber(port.Port)
//		validation.OneOf(f.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP)
//	}
//
// The same function validates creations, for which old is nil, and updates. It reports errors to the Field and
// returns nothing. The validation of a valid object allocates no memory: a Field consists of two words, and is
// converted to a path only if there is an error. Error messages are those of kube-apiserver.
package validation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/feature"
)

// maxErrors is the maximum number of errors that are reported for one object. Clients read only a few errors,
// and rejecting an object with 100,000 errors would be more expensive than storing it.
const maxErrors = 1000

// Validator runs validation rules. Validate is safe for concurrent use.
type Validator struct {
	// DenyPrivileged causes privileged containers to be rejected, like in a kube-apiserver without
	// --allow-privileged. It must be set before the first call of Validate.
	DenyPrivileged bool

	gates   feature.Gates
	options map[string]bool // the feature gates that declared rules use
	objects sync.Pool       // of *object, for reuse
}

// NewValidator returns a Validator with the given feature gates.
func NewValidator(gates feature.Gates) *Validator {
	return &Validator{gates: gates, options: declaredOptions(gates)}
}

// Validate runs rules on one object and returns the errors that they report, up to maxErrors.
// rules must not retain the Field, which refers to the object itself.
func (v *Validator) Validate(ctx context.Context, rules func(Field)) field.ErrorList {
	o, _ := v.objects.Get().(*object)
	if o == nil {
		o = &object{validator: v}
	}
	o.ctx, o.places, o.errs, o.count = ctx, append(o.places[:0], place{parent: -1}), nil, 0
	rules(Field{object: o})
	errs := o.errs
	o.ctx, o.errs = nil, nil
	v.objects.Put(o)
	return errs
}

// object is the state of the validation of one object.
type object struct {
	ctx       context.Context
	validator *Validator
	places    []place
	errs      field.ErrorList
	count     int // number of errors, including those beyond maxErrors
}

// place is the last element of a path. It is a child, a list element or a map element of its parent.
type place struct {
	parent int32 // index in object.places; -1 for the object itself
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

// Field is a path in the validated object. Rules report errors to it. It must be used only by the goroutine
// that runs the rules.
type Field struct {
	object *object
	at     int32
}

// Child returns the field with the given JSON name.
func (f Field) Child(name string) Field { return f.below(place{kind: child, name: name}) }

// Index returns the list element with the given index.
func (f Field) Index(i int) Field { return f.below(place{kind: element, index: int32(i)}) }

// Key returns the element with the given key of a map, or of a list whose elements have keys.
func (f Field) Key(key string) Field { return f.below(place{kind: keyed, name: key}) }

func (f Field) below(p place) Field {
	p.parent = f.at
	f.object.places = append(f.object.places, p)
	return Field{f.object, int32(len(f.object.places) - 1)}
}

// Path converts the Field to a path of apimachinery, which allocates memory. It returns nil for the object
// itself.
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

// Context returns the context of the request. Slow rules should stop when it is canceled.
func (f Field) Context() context.Context { return f.object.ctx }

// Enabled reports whether a feature gate is enabled.
func (f Field) Enabled(gate feature.Gate) bool { return f.object.validator.gates.Enabled(gate) }

// DenyPrivileged reports whether privileged containers are rejected.
func (f Field) DenyPrivileged() bool { return f.object.validator.DenyPrivileged }

// ErrorCount returns the number of errors that have been reported for the object, including those beyond
// maxErrors. Rules use it to skip checks after an error.
func (f Field) ErrorCount() int { return f.object.count }

// Violates reports whether rules find errors, and discards these errors. It is used for rules that are newer
// than some stored objects: if the old object violates such a rule, the rule does not apply to the new object.
func (f Field) Violates(rules func(Field)) bool {
	kept, count := f.object.errs, f.object.count
	f.object.errs = nil
	rules(f)
	broken := f.object.count > count
	f.object.errs, f.object.count = kept, count
	return broken
}

// Add reports errors whose paths are complete.
func (f Field) Add(errs ...*field.Error) {
	room := max(0, maxErrors-len(f.object.errs))
	f.object.errs = append(f.object.errs, errs[:min(room, len(errs))]...)
	f.object.count += len(errs)
}

// Required reports that a value is missing.
func (f Field) Required(detail string) { f.Add(field.Required(f.Path(), detail)) }

// Invalid reports an invalid value.
func (f Field) Invalid(value any, detail string) { f.Add(field.Invalid(f.Path(), value, detail)) }

// Forbidden reports that the field must not be set, or must not have its current value.
func (f Field) Forbidden(detail string) { f.Add(field.Forbidden(f.Path(), detail)) }

// Duplicate reports that an earlier element has the same value.
func (f Field) Duplicate(value any) { f.Add(field.Duplicate(f.Path(), value)) }

// NotFound reports a reference to an object that does not exist.
func (f Field) NotFound(value any) { f.Add(field.NotFound(f.Path(), value)) }

// TooLong reports a string that is longer than max bytes.
func (f Field) TooLong(max int) { f.Add(field.TooLong(f.Path(), "", max)) }

// TooMany reports a list that has n elements although at most max are allowed.
func (f Field) TooMany(n, max int) { f.Add(field.TooMany(f.Path(), n, max)) }
