package ownership

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A mutator changes objects at random.
type mutator struct{ *rand.Rand }

func (m mutator) one(n int) bool { return m.IntN(n) == 0 }

var words = []string{"", "a", "b", "a b", "a/b", `say "x"`, "TCP", "UDP", "ä", "<&>", "back\\slash", "x!", "line\nbreak", "\u2028", "Always"}

func (m mutator) word() string { return words[m.IntN(len(words))] }

// mutate makes about n random changes to an object.
func (m mutator) mutate(obj any, n int) {
	for range n {
		m.change(reflect.ValueOf(obj).Elem(), 0)
	}
}

// change makes one random change in v.
func (m mutator) change(v reflect.Value, depth int) {
	if !v.CanSet() {
		return
	}
	switch at := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		*at = metav1.Time{Time: time.Unix(int64(m.IntN(3))*1000, int64(m.IntN(2))).UTC()}
		if m.one(3) {
			*at = metav1.Time{}
		}
		return
	case *metav1.MicroTime:
		*at = metav1.MicroTime{Time: time.Unix(int64(m.IntN(3)), int64(m.IntN(3000))).UTC()}
		return
	case *resource.Quantity:
		*at = resource.MustParse([]string{"1", "1000m", "0", "1Gi", "1024Mi", "0.5", "500m", "1e3"}[m.IntN(8)])
		return
	case *intstr.IntOrString:
		*at = intstr.FromInt32(int32(m.IntN(3)))
		if m.one(2) {
			*at = intstr.FromString(m.word())
		}
		return
	case *runtime.RawExtension:
		*at = runtime.RawExtension{Raw: []byte([]string{`{"a":1}`, `{"a":1.0}`, `[1]`, `"x"`, `null`, `{"a":{"b":[{"c":null}]}}`}[m.IntN(6)])}
		return
	case *apiextensionsv1.JSON:
		at.Raw = []byte([]string{`{"a":1}`, `1.0`, `[1]`, `"x"`, `{"a":{"b":[{"c":null}]}}`}[m.IntN(5)])
		return
	case *[]metav1.ManagedFieldsEntry:
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.NumField() > 0 {
			m.change(v.Field(m.IntN(v.NumField())), depth+1)
		}
	case reflect.Pointer:
		m.pointer(v, depth)
	case reflect.Slice:
		m.slice(v, depth)
	case reflect.Map:
		m.entries(v, depth)
	case reflect.String:
		v.SetString(m.word())
	case reflect.Bool:
		v.SetBool(m.one(2))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(m.IntN(4)) * 80)
	case reflect.Float64:
		v.SetFloat(float64(m.IntN(4)) / 2)
	}
}

func (m mutator) pointer(v reflect.Value, depth int) {
	switch {
	case !v.IsNil() && m.one(6):
		v.SetZero()
	case !v.IsNil():
		m.change(v.Elem(), depth)
	case depth < 20:
		v.Set(reflect.New(v.Type().Elem()))
		m.change(v.Elem(), depth)
	}
}

func (m mutator) slice(v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(m.word()))
		return
	}
	n := v.Len()
	switch what := m.IntN(12); {
	case what == 0:
		v.SetZero()
	case what == 1:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case n == 0 || what < 4:
		item := reflect.New(v.Type().Elem()).Elem()
		if n > 0 && m.one(2) {
			item.Set(v.Index(m.IntN(n))) // duplicate an item
		}
		v.Set(reflect.Append(copied(v), item))
		for range m.IntN(3) {
			m.change(v.Index(n), depth+1)
		}
	case what == 4:
		i := m.IntN(n)
		v.Set(reflect.AppendSlice(copied(v.Slice(0, i)), v.Slice(i+1, n)))
	case what == 5:
		c := copied(v)
		m.Shuffle(n, reflect.Swapper(c.Interface()))
		v.Set(c)
	default:
		m.change(v.Index(m.IntN(n)), depth+1)
	}
}

func copied(v reflect.Value) reflect.Value {
	return reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()+1), v)
}

func (m mutator) entries(v reflect.Value, depth int) {
	switch what := m.IntN(8); {
	case what == 0:
		v.SetZero()
	case what == 1:
		v.Set(reflect.MakeMap(v.Type()))
	case v.Len() > 0 && what < 3:
		v.SetMapIndex(m.key(v), reflect.Value{})
	default:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(fmt.Sprint(m.word(), m.IntN(3)))
		if v.Len() > 0 && m.one(2) {
			key = m.key(v)
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if was := v.MapIndex(key); was.IsValid() {
			elem.Set(was)
		}
		m.change(elem, depth+1)
		v.SetMapIndex(key, elem)
	}
}

// key returns the key of a random entry.
func (m mutator) key(v reflect.Value) reflect.Value {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys[m.IntN(len(keys))]
}

// cacheQuantities caches the text of every quantity, as encoding does for some quantities. Comparisons of
// Go values distinguish between quantities with and without cached text.
func cacheQuantities(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			cacheQuantities(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			cacheQuantities(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			cacheQuantities(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[resource.Quantity]() {
			if v.CanAddr() {
				_ = v.Addr().Interface().(*resource.Quantity).String()
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				cacheQuantities(v.Field(i))
			}
		}
	}
}
