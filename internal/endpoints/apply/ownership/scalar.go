package ownership

import (
	"bytes"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// as returns a pointer to a value of a known type. It copies only values without an address, which
// occur in maps.
func as[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	copied := v.Interface().(T)
	return &copied
}

// isZeroTime reports whether a metav1.Time or metav1.MicroTime is zero.
func isZeroTime(v reflect.Value) bool {
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		return as[metav1.Time](v).Time.IsZero()
	}
	return as[metav1.MicroTime](v).Time.IsZero()
}

// sameScalar reports whether two scalars, which are not null, have equal JSON.
func (p *plan) sameScalar(l, r reflect.Value) bool {
	switch p.kind {
	case planText:
		return l.String() == r.String()
	case planBool:
		return l.Bool() == r.Bool()
	case planInt:
		return l.Int() == r.Int()
	case planUint:
		return l.Uint() == r.Uint()
	case planFloat:
		return l.Float() == r.Float()
	case planBytes:
		return bytes.Equal(l.Bytes(), r.Bytes())
	case planQuantity:
		x, y := as[resource.Quantity](l), as[resource.Quantity](r)
		return *x == *y || x.ToUnstructured() == y.ToUnstructured()
	case planTime:
		return as[metav1.Time](l).Unix() == as[metav1.Time](r).Unix()
	case planMicroTime:
		x, y := as[metav1.MicroTime](l), as[metav1.MicroTime](r)
		return x.Unix() == y.Unix() && x.Nanosecond()/1000 == y.Nanosecond()/1000
	case planIntOrString:
		x, y := as[intstr.IntOrString](l), as[intstr.IntOrString](r)
		return x.Type == y.Type && (x.Type == intstr.Int && x.IntVal == y.IntVal || x.Type == intstr.String && x.StrVal == y.StrVal)
	}
	return as[metav1.Duration](l).Duration == as[metav1.Duration](r).Duration
}

// appendKeyScalar encodes a scalar key of an item.
func (p *plan) appendKeyScalar(dst []byte, v reflect.Value) ([]byte, error) {
	switch p.kind {
	case planText:
		return appendString(dst, v.String())
	case planInt:
		return appendInt(dst, v.Int())
	case planBool:
		return appendBool(dst, v.Bool()), nil
	}
	return dst, errUnsupported
}

// document returns the JSON value of v, or nil for null.
func (p *plan) document(v reflect.Value) (any, error) {
	return p.entry.ToUnstructured(v)
}
