// Package validation provides the framework and common checks for the validation rules of built-in
// kinds. A rule is a function of a Field, which is a path in the validated object, and of the
// current and previous value of this field:
//
//	func validatePort(f validation.Field, port, old *corev1.ServicePort) {
//		f.Child("port").PortNumber(port.Port)
//		validation.OneOf(f.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP)
//	}
//
// The same function validates creation, with a nil old, and update. It reports errors to the Field
// and returns nothing. Validation of a valid object allocates no memory: a Field consists of two
// words, and is converted to a path only for an error. Errors have the messages of kube-apiserver.
package validation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/feature"
)

// maxErrors is the maximum number of reported errors of one object. Clients read only a few, and an
// object with 100,000 errors would be more expensive to reject than to store.
const maxErrors = 1000

// maxErrorSize is the maximum total size of the messages of the reported errors, in bytes. The first error is
// always reported. Many messages quote a value, and each error of a list can quote the whole list.
const maxErrorSize = 4 << 20

// Validator runs rules. Validate is safe for concurrent use.
type Validator struct {
	// DenyPrivileged rejects privileged containers, like kube-apiserver without --allow-privileged.
	// It must be set before the first use.
	DenyPrivileged bool

	gates   feature.Gates
	options map[string]bool // feature gates for declared rules
	objects sync.Pool       // *object, to be used again
}

// NewValidator returns a Validator with the given feature gates.
func NewValidator(gates feature.Gates) *Validator {
	return &Validator{gates: gates, options: declaredOptions(gates)}
}

// Validate runs rules on one object and returns their errors, up to maxErrors and maxErrorSize. The
// Field is the path of the object itself. rules must not retain it.
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
	return limitSize(errs)
}

// limitSize returns the first errors, up to maxErrorSize.
func limitSize(errs field.ErrorList) field.ErrorList {
	size := 0
	for i, err := range errs {
		if size += len(err.ErrorBody()); size > maxErrorSize {
			return errs[:max(1, i)]
		}
	}
	return errs
}

// object is the state of the validation of one object.
type object struct {
	ctx       context.Context
	validator *Validator
	places    []place
	errs      field.ErrorList
	count     int // number of errors, including errors beyond maxErrors
}

// place is an element of a path: a child, a list element or a map element of its parent.
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

// Field is a path in the validated object. Errors are reported to it. It must only be used by the
// goroutine that runs the rules.
type Field struct {
	object *object
	at     int32
}

// Child returns the field with a name, which is the JSON name.
func (f Field) Child(name string) Field { return f.below(place{kind: child, name: name}) }

// Index returns the list element with an index.
func (f Field) Index(i int) Field { return f.below(place{kind: element, index: int32(i)}) }

// Key returns the element of a map, or of a list with keys.
func (f Field) Key(key string) Field { return f.below(place{kind: keyed, name: key}) }

func (f Field) below(p place) Field {
	p.parent = f.at
	f.object.places = append(f.object.places, p)
	return Field{f.object, int32(len(f.object.places) - 1)}
}

// Path returns the path of apimachinery, which allocates memory. It is nil for the object itself.
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

// ErrorCount returns the number of errors of the object so far, including errors beyond the maximum
// number. Rules use it to skip checks after an error.
func (f Field) ErrorCount() int { return f.object.count }

// Violates reports whether rules find errors, and discards these errors. It is for rules that are newer than
// stored objects: if the old object violates such rules, they do not apply to the new object.
func (f Field) Violates(rules func(Field)) bool {
	kept, count := f.object.errs, f.object.count
	f.object.errs = nil
	rules(f)
	broken := f.object.count > count
	f.object.errs, f.object.count = kept, count
	return broken
}

// Add reports errors with complete paths.
func (f Field) Add(errs ...*field.Error) {
	room := max(0, maxErrors-len(f.object.errs))
	f.object.errs = append(f.object.errs, errs[:min(room, len(errs))]...)
	f.object.count += len(errs)
}

// Required reports that a value is missing.
func (f Field) Required(detail string) { f.Add(field.Required(f.Path(), detail)) }

// Invalid reports an invalid value.
func (f Field) Invalid(value any, detail string) { f.Add(field.Invalid(f.Path(), value, detail)) }

// Forbidden reports that the field must not be set, or must not have its value.
func (f Field) Forbidden(detail string) { f.Add(field.Forbidden(f.Path(), detail)) }

// Duplicate reports that a previous element has the same value.
func (f Field) Duplicate(value any) { f.Add(field.Duplicate(f.Path(), value)) }

// NotFound reports a reference to a missing object.
func (f Field) NotFound(value any) { f.Add(field.NotFound(f.Path(), value)) }

// TooLong reports a text that is longer than max bytes.
func (f Field) TooLong(max int) { f.Add(field.TooLong(f.Path(), "", max)) }

// TooMany reports a list of n elements, of which at most max are valid.
func (f Field) TooMany(n, max int) { f.Add(field.TooMany(f.Path(), n, max)) }
