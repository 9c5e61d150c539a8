package emulation

import (
	"fmt"
	"path"
	"reflect"
	"strings"
)

// Fields finds and clears the fields of a type that are missing or disabled in an emulated version. It is
// immutable and safe for concurrent use.
type Fields struct{ root *typePlan }

// typePlan contains the fields of a struct that are missing or disabled, or that can contain such fields.
type typePlan struct{ fields []fieldPlan }

type fieldPlan struct {
	index int
	json  string // "" for an embedded struct
	state fieldState
	inner *typePlan
}

// FieldsOf returns the Fields for objects of the struct type t, or nil if no field is missing or disabled.
// apiVersion is the API version of the objects, such as v1beta2. It can differ from the version in the package
// path of t.
func (r *Release) FieldsOf(t reflect.Type, apiVersion string) *Fields {
	if r == nil {
		return nil
	}
	b := planBuilder{states: r.states, plans: map[reflect.Type]*typePlan{}, pkg: t.PkgPath(), apiVersion: apiVersion}
	root := b.plan(t)
	if !root.affected(map[*typePlan]bool{}) {
		return nil
	}
	return &Fields{root}
}

// planBuilder creates the plan of a struct type and the plans of the types that it contains.
type planBuilder struct {
	states map[string]map[string]fieldState
	plans  map[reflect.Type]*typePlan
	// Types of the package pkg are looked up in the table as types of apiVersion.
	pkg, apiVersion string
}

// plan returns the plan of a struct type. It contains the missing and disabled fields, and all fields that
// contain struct types of Kubernetes.
func (b *planBuilder) plan(t reflect.Type) *typePlan {
	if p, ok := b.plans[t]; ok {
		return p
	}
	p := &typePlan{}
	b.plans[t] = p
	states := b.states[b.typeKey(t)]
	for i := range t.NumField() {
		f := t.Field(i)
		json, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || json == "-" {
			continue
		}
		plan := fieldPlan{index: i, json: json, state: states[json]}
		if element := structOf(f.Type); element != nil && strings.HasPrefix(element.PkgPath(), "k8s.io/") {
			plan.inner = b.plan(element)
		}
		if plan.state != 0 || plan.inner != nil {
			p.fields = append(p.fields, plan)
		}
	}
	return p
}

// typeKey returns the key of a type in the table, such as core/v1.PodSpec.
func (b *planBuilder) typeKey(t reflect.Type) string {
	version := path.Base(t.PkgPath())
	if t.PkgPath() == b.pkg {
		version = b.apiVersion
	}
	return path.Base(path.Dir(t.PkgPath())) + "/" + version + "." + t.Name()
}

// structOf returns the struct type in t, which can be a pointer, slice, array or map. It returns nil if t
// contains no struct type.
func structOf(t reflect.Type) reflect.Type {
	for {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			return t
		default:
			return nil
		}
	}
}

// affected reports whether the plan or a plan in it contains a missing or disabled field. seen contains the
// visited plans, because types can be recursive.
func (p *typePlan) affected(seen map[*typePlan]bool) bool {
	if seen[p] {
		return false
	}
	seen[p] = true
	for i := range p.fields {
		if f := &p.fields[i]; f.state != 0 || f.inner != nil && f.inner.affected(seen) {
			return true
		}
	}
	return false
}

// visitor is called with each set field that is missing or disabled. It may clear value. at is the path of the
// field.
type visitor func(f *fieldPlan, value reflect.Value, at string)

// visit calls the visitor for the fields of a struct. at is the path of the struct and ends with a dot, or is
// "" for the root.
func (p *typePlan) visit(v reflect.Value, at string, call visitor) {
	for i := range p.fields {
		f := &p.fields[i]
		value := v.Field(f.index)
		if value.IsZero() {
			continue
		}
		if f.state != 0 {
			call(f, value, at+f.json)
		}
		if f.inner != nil && !value.IsZero() {
			name := at + f.json
			if f.json == "" {
				name = strings.TrimSuffix(at, ".")
			}
			f.inner.visitIn(value, name, call)
		}
	}
}

// visitIn visits the structs in a value, which can be a struct, or a pointer, slice, array or map of values.
func (p *typePlan) visitIn(v reflect.Value, at string, call visitor) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p.visitIn(v.Elem(), at, call)
		}
	case reflect.Struct:
		if at != "" {
			at += "."
		}
		p.visit(v, at, call)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			p.visitIn(v.Index(i), fmt.Sprintf("%s[%d]", at, i), call)
		}
	case reflect.Map:
		p.visitMap(v, at, call)
	}
}

// visitMap visits the values of a map. Map values cannot be modified in place, so it stores copies of the
// values in which call cleared a field.
func (p *typePlan) visitMap(v reflect.Value, at string, call visitor) {
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		cleared := false
		p.visitIn(value, fmt.Sprintf("%s.%v", at, key), func(f *fieldPlan, field reflect.Value, at string) {
			call(f, field, at)
			cleared = cleared || field.IsZero()
		})
		if cleared {
			v.SetMapIndex(key, value)
		}
	}
}

// Drop clears the missing and disabled fields of obj, except fields that are set anywhere in old, so that an
// update keeps content that a newer version wrote. obj and old are pointers to structs; old may be nil.
func (f *Fields) Drop(obj, old any) {
	if f == nil {
		return
	}
	used := map[*fieldPlan]bool{}
	if v := reflect.ValueOf(old); old != nil && !v.IsNil() {
		f.root.visitIn(v, "", func(field *fieldPlan, _ reflect.Value, _ string) { used[field] = true })
	}
	f.root.visitIn(reflect.ValueOf(obj), "", func(field *fieldPlan, value reflect.Value, _ string) {
		if !used[field] {
			value.SetZero()
		}
	})
}

// Unknown returns the paths of the set fields of obj that the version does not have, such as
// spec.containers[0].restartPolicyRules. obj is a pointer to a struct and is not modified.
func (f *Fields) Unknown(obj any) []string {
	if f == nil {
		return nil
	}
	var paths []string
	f.root.visitIn(reflect.ValueOf(obj), "", func(field *fieldPlan, _ reflect.Value, at string) {
		if field.state == missing {
			paths = append(paths, at)
		}
	})
	return paths
}
