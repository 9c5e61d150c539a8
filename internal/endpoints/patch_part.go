package endpoints

import (
	"reflect"
	"strings"

	"mainstay.dev/mainstay/internal/codec"
)

// part contains the type and those top-level fields of an object that a merge patch changes. For example, a
// patch of the labels or status of a pod is applied only to these fields, because encoding and decoding the
// specification would take most of the time.
type part struct {
	whole, part codec.Object
	fields      []int // the indexes of the struct fields in part
}

// partOf returns the part that a patch with the given members changes. It returns false if the part is the
// whole object or cannot be determined.
func partOf(v *codec.Version, obj codec.Object, members map[string]any) (part, bool) {
	if v.Untyped {
		return part{}, false
	}
	for name := range members {
		if strings.HasPrefix(name, "$") { // a directive for the whole object
			return part{}, false
		}
	}
	p := part{whole: obj, part: v.New()}
	from, to := reflect.ValueOf(obj).Elem(), reflect.ValueOf(p.part).Elem()
	for i := range from.NumField() {
		name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("json"), ",")
		if _, named := members[name]; named || name == "" { // the embedded TypeMeta has no JSON name
			to.Field(i).Set(from.Field(i))
			p.fields = append(p.fields, i)
		}
	}
	return p, len(p.fields) < from.NumField()
}

// with returns a copy of the whole object that contains the fields of a changed part.
func (p *part) with(changed codec.Object) codec.Object {
	whole := p.whole.DeepCopyObject().(codec.Object)
	from, to := reflect.ValueOf(changed).Elem(), reflect.ValueOf(whole).Elem()
	for _, i := range p.fields {
		to.Field(i).Set(from.Field(i))
	}
	return whole
}
