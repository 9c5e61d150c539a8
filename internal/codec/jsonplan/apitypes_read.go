package jsonplan

import (
	"reflect"
	"strings"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/codec/quantity"
)

// knownReadPlan returns the plan of a type with a known UnmarshalJSON method, or nil.
func knownReadPlan(t reflect.Type) decodeFunc {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return readTime
	case reflect.TypeFor[metav1.MicroTime]():
		return readMicroTime
	case reflect.TypeFor[metav1.FieldsV1]():
		return readFields
	case reflect.TypeFor[resource.Quantity]():
		return readQuantity
	case reflect.TypeFor[intstr.IntOrString]():
		return readIntOrString
	case reflect.TypeFor[runtime.RawExtension]():
		return readRawExtension
	case reflect.TypeFor[corev1.ResourceList]():
		return readResourceList
	}
	return definitionReadPlan(t)
}

func readTime(r *reader, i int, p unsafe.Pointer) int {
	return r.time(i, time.RFC3339, &(*metav1.Time)(p).Time)
}

func readMicroTime(r *reader, i int, p unsafe.Pointer) int {
	return r.time(i, metav1.RFC3339Micro, &(*metav1.MicroTime)(p).Time)
}

func (r *reader) time(i int, layout string, to *time.Time) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	s, end := r.text(i)
	if end == invalid {
		return invalid
	}
	t, err := time.Parse(layout, s)
	if err != nil {
		return invalid
	}
	*to = t.Local()
	return end
}

func readFields(r *reader, i int, p unsafe.Pointer) int {
	end := r.skip(i)
	if end == invalid || r.at(i) == 'n' {
		return end
	}
	(*metav1.FieldsV1)(p).SetRawBytes(bytesOf(r.data[i:end])) // SetRawBytes copies them
	return end
}

func readRawExtension(r *reader, i int, p unsafe.Pointer) int {
	end := r.skip(i)
	if end == invalid || r.at(i) == 'n' {
		return end
	}
	(*runtime.RawExtension)(p).Raw = []byte(r.data[i:end])
	return end
}

// readQuantity decodes a string or number.
func readQuantity(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	end := r.skip(i)
	if end == invalid {
		return invalid
	}
	text := r.data[i:end]
	if text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	q, err := quantity.Parse(strings.TrimSpace(text))
	if err != nil {
		return invalid
	}
	*(*resource.Quantity)(p) = q
	return end
}

func readIntOrString(r *reader, i int, p unsafe.Pointer) int {
	v := (*intstr.IntOrString)(p)
	if r.at(i) == '"' {
		v.Type = intstr.String
		return readText(r, i, unsafe.Pointer(&v.StrVal))
	}
	return readInt32(r, i, unsafe.Pointer(&v.IntVal))
}

func readResourceList(r *reader, i int, p unsafe.Pointer) int {
	if r.at(i) == 'n' {
		return r.literal(i, "null")
	}
	i, more := r.open(i, '{', '}')
	if i == invalid {
		return invalid
	}
	m := corev1.ResourceList{}
	*(*corev1.ResourceList)(p) = m
	for more {
		name, after := r.text(i)
		at := r.colon(after)
		if at == invalid {
			return invalid
		}
		var q resource.Quantity
		i, more = r.next(readQuantity(r, at, unsafe.Pointer(&q)), '}')
		before := len(m)
		if m[corev1.ResourceName(r.retain(name))] = q; len(m) == before {
			return invalid
		}
	}
	return i
}
