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

// knownPlan returns the plan of a type whose own MarshalJSON is known, so that
// it need not be called and its result not be checked; nil for all others.
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
	return nil
}

func timePlan(w *writer, p unsafe.Pointer) { w.time((*metav1.Time)(p).Time, time.RFC3339) }

func microTimePlan(w *writer, p unsafe.Pointer) {
	w.time((*metav1.MicroTime)(p).Time, metav1.RFC3339Micro)
}

func (w *writer) time(t time.Time, layout string) {
	if t.IsZero() {
		w.string("null")
		return
	}
	w.buf = append(w.buf, '"')
	w.buf = t.UTC().AppendFormat(w.buf, layout)
	w.buf = append(w.buf, '"')
}

func durationPlan(w *writer, p unsafe.Pointer) {
	w.buf = appendString(w.buf, (*metav1.Duration)(p).Duration.String())
}

func fieldsPlan(w *writer, p unsafe.Pointer) {
	f := (*metav1.FieldsV1)(p)
	raw := f.GetRawBytes()
	if !isFieldSet(raw) {
		w.slow(f)
		return
	}
	w.buf = append(w.buf, raw...)
}

func quantityPlan(w *writer, p unsafe.Pointer) { w.quantity((*resource.Quantity)(p)) }

// quantity must not call String, which writes to what it is called on.
func (w *writer) quantity(q *resource.Quantity) {
	number, suffix := q.CanonicalizeBytes(w.scratch[:0])
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, number...)
	w.buf = append(w.buf, suffix...)
	w.buf = append(w.buf, '"')
}

func intOrStringPlan(w *writer, p unsafe.Pointer) {
	switch v := (*intstr.IntOrString)(p); v.Type {
	case intstr.Int:
		w.buf = strconv.AppendInt(w.buf, int64(v.IntVal), 10)
	case intstr.String:
		w.buf = appendString(w.buf, v.StrVal)
	default:
		w.failed = true
	}
}

func rawExtensionPlan(w *writer, p unsafe.Pointer) {
	raw := (*runtime.RawExtension)(p)
	switch {
	case raw.Raw != nil || w.readBack:
		w.slow(raw)
	case raw.Object != nil:
		w.any(raw.Object)
	default:
		w.string("null")
	}
}

func resourceListPlan(w *writer, p unsafe.Pointer) {
	m := *(*corev1.ResourceList)(p)
	if w.noMap(m == nil, len(m)) {
		return
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, string(key))
	}
	for i, key := range w.sorted(base) {
		w.key(i, key)
		w.copy = m[corev1.ResourceName(key)]
		w.quantity(&w.copy)
	}
	w.endMap(base)
}
