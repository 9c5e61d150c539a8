package jsonplan

import (
	"reflect"
	"strconv"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// knownPlan returns the plan of a type with a known MarshalJSON method, or nil for other types. The plan
// avoids calling the method and validating its result.
func knownPlan(t reflect.Type) encodeFunc {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return timePlan
	case reflect.TypeFor[metav1.MicroTime]():
		return microTimePlan
	case reflect.TypeFor[metav1.Duration]():
		return durationPlan
	case reflect.TypeFor[metav1.FieldsV1]():
		return fieldsPlan
	case reflect.TypeFor[resource.Quantity]():
		return quantityPlan
	case reflect.TypeFor[intstr.IntOrString]():
		return intOrStringPlan
	case reflect.TypeFor[runtime.RawExtension]():
		return rawExtensionPlan
	case reflect.TypeFor[corev1.ResourceList]():
		return resourceListPlan
	}
	return definitionPlan(t)
}

func timePlan(_ *writer, b []byte, p unsafe.Pointer) []byte {
	return appendTime(b, (*metav1.Time)(p).Time, time.RFC3339)
}

func microTimePlan(_ *writer, b []byte, p unsafe.Pointer) []byte {
	return appendTime(b, (*metav1.MicroTime)(p).Time, metav1.RFC3339Micro)
}

func appendTime(b []byte, t time.Time, layout string) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, layout)
	return append(b, '"')
}

func durationPlan(_ *writer, b []byte, p unsafe.Pointer) []byte {
	return appendString(b, (*metav1.Duration)(p).Duration.String())
}

func fieldsPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	f := (*metav1.FieldsV1)(p)
	raw := f.GetRawBytes()
	if !isFieldSet(raw) {
		return w.slow(b, f)
	}
	return append(b, raw...)
}

func quantityPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	return w.quantity(b, (*resource.Quantity)(p))
}

// quantity must not call String, which modifies its receiver.
func (w *writer) quantity(b []byte, q *resource.Quantity) []byte {
	if n, ok := q.AsInt64(); ok && q.Format == resource.BinarySI && (n >= 1024 || n <= -1024) {
		return appendBinary(b, n)
	}
	number, suffix := q.CanonicalizeBytes(w.scratch[:0])
	b = append(b, '"')
	b = append(b, number...)
	b = append(b, suffix...)
	return append(b, '"')
}

// appendBinary appends an integer with an absolute value of at least 1024, with the largest binary unit
// that divides it. It avoids the allocations of CanonicalizeBytes.
func appendBinary(b []byte, n int64) []byte {
	unit := 0
	for n%1024 == 0 {
		n /= 1024
		unit++
	}
	b = append(b, '"')
	b = strconv.AppendInt(b, n, 10)
	if unit > 0 {
		b = append(b, "KMGTPE"[unit-1], 'i')
	}
	return append(b, '"')
}

func intOrStringPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	switch v := (*intstr.IntOrString)(p); v.Type {
	case intstr.Int:
		return strconv.AppendInt(b, int64(v.IntVal), 10)
	case intstr.String:
		return appendString(b, v.StrVal)
	}
	return w.fail(b)
}

func rawExtensionPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	raw := (*runtime.RawExtension)(p)
	switch {
	case raw.Raw != nil || w.readBack:
		return w.slow(b, raw)
	case raw.Object != nil:
		return w.any(b, raw.Object)
	}
	return append(b, "null"...)
}

func resourceListPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	m := *(*corev1.ResourceList)(p)
	if w.encodesAsNull(m == nil, len(m)) {
		return append(b, "null"...)
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, string(key))
	}
	for i, key := range w.sorted(base) {
		w.copy = m[corev1.ResourceName(key)]
		b = w.quantity(appendKey(b, i, key), &w.copy)
	}
	return w.endMap(b, base)
}
