// Package codectest creates API objects for tests of encoders: random objects of any type, and
// realistic pods.
package codectest

import (
	"math/rand/v2"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxDepth limits the nesting of values of recursive types.
const maxDepth = 12

// Fill sets a value to a random value of its type. Some fields remain empty, lists and maps may be
// empty without being nil, and strings may contain invalid UTF-8. v must be settable.
func Fill(random *rand.Rand, v reflect.Value) { fill(random, v, 0) }

func fill(random *rand.Rand, v reflect.Value, depth int) {
	if !v.CanSet() || depth > maxDepth || fillKnown(random, v) {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.String:
		v.SetString(text(random))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if random.IntN(3) > 0 {
			v.SetInt(int64(random.Uint64()) >> random.IntN(64))
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(random.Uint64() >> random.IntN(64))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(random.NormFloat64())
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if n := random.IntN(4) - 1; n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(random, v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		fillMap(random, v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(random, v.Field(i), depth+1)
		}
	}
}

func fillMap(random *rand.Rand, v reflect.Value, depth int) {
	n := random.IntN(4) - 1
	if n < 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(random, key, depth+1)
		fill(random, value, depth+1)
		v.SetMapIndex(key, value)
	}
}

// fillKnown sets v and returns true if v has one of the types whose valid values are restricted, for
// example metav1.Time.
func fillKnown(random *rand.Rand, v reflect.Value) bool {
	at := time.Unix(random.Int64N(4e9)-1e9, random.Int64N(1e9)/1000*1000)
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if random.IntN(3) > 0 {
			*p = metav1.NewTime(at)
		}
	case *metav1.MicroTime:
		if random.IntN(3) > 0 {
			*p = metav1.NewMicroTime(at)
		}
	case *resource.Quantity:
		*p = quantity(random)
	case *intstr.IntOrString:
		if *p = intstr.FromInt32(int32(random.Uint32())); random.IntN(2) == 0 {
			*p = intstr.FromString(text(random))
		}
	case *runtime.RawExtension:
		raws := []string{`{"a":1}`, `{ "b" : "<" }`, `null`, `[1]`}
		if i := random.IntN(len(raws) + 1); i < len(raws) {
			p.Raw = []byte(raws[i])
		}
	case *metav1.FieldsV1:
		raws := []string{`{}`, `{"f:a":{"k:{\"name\":\"a\"}":{".":{}}}}`, `{"f:<":{}}`, ``, `{"f:a":{"v:1":{}},"f:b":{}}`}
		p.SetRawString(raws[random.IntN(len(raws))])
	default:
		return false
	}
	return true
}

func quantity(random *rand.Rand) resource.Quantity {
	texts := []string{"0", "1", "100m", "1.5", "128Mi", "1Gi", "1025Ki", "1e3", "-5k", "0.001", "12345678901234567890123", "3E", "1.0000000001", "512", "1023Mi"}
	q := resource.MustParse(texts[random.IntN(len(texts))])
	if random.IntN(2) == 0 {
		_ = q.String() // String caches the text
	}
	return q
}

func text(random *rand.Rand) string {
	texts := []string{"", "a", "name", "kubernetes.io/hostname", "<&>", "\"quoted\" and \\", "line\nfeed\ttab\x00\x1f\x7f", "ünïcödé", "\u2028\u2029",
		"\xff\xfe\xc3", "a text that is longer than a few words of memory", "exactly8", "exactly8\"", "1234567é", "\b\f\r"}
	return texts[random.IntN(len(texts))]
}
