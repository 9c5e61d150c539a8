package ownership

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// A compiler creates the plans of the Go types of one kind.
type compiler struct {
	schema *smd.Schema
	made   map[planKey]*plan
	all    []*plan
	lists  []associativeList
}

type planKey struct {
	goType reflect.Type
	schema string
	how    smd.ElementRelationship
}

// compile creates the plan of a type that is a pointer to a struct. documents reports whether the plan
// contains a planDocument.
func compile(s kindSchema, goType reflect.Type) (_ *plan, documents bool) {
	c := &compiler{schema: s.schema, made: map[planKey]*plan{}}
	p := c.plan(goType, s.root())
	p.object = true
	for _, l := range c.lists {
		c.finish(l)
	}
	for changed := true; changed; {
		changed = false
		for _, p := range c.all {
			if !p.fallible && p.hasFallible() {
				p.fallible, changed = true, true
			}
		}
	}
	c.findLossy()
	return p, slices.ContainsFunc(c.all, func(p *plan) bool { return p.kind == planDocument })
}

func (p *plan) hasFallible() bool {
	if p.kind == planUnsupported || p.kind == planManagedFields || p.keysOptional {
		return true
	}
	if p.elem != nil && (p.elem.fallible || p.associative && p.elem.pointer) {
		return true
	}
	return slices.ContainsFunc(p.fields, func(f field) bool { return f.plan.fallible })
}

// plan creates a plan, or returns an existing one, because types may be recursive.
func (c *compiler) plan(goType reflect.Type, ref smd.TypeRef) *plan {
	p := &plan{ref: ref}
	if ref.NamedType != nil {
		key := planKey{goType: goType, schema: *ref.NamedType}
		if ref.ElementRelationship != nil {
			key.how = *ref.ElementRelationship
		}
		if made := c.made[key]; made != nil {
			return made
		}
		c.made[key] = p
	}
	c.all = append(c.all, p)
	if goType.Kind() == reflect.Pointer {
		p.pointer = true
		goType = goType.Elem()
	}
	if atom, ok := c.schema.Resolve(ref); ok {
		c.fill(p, goType, atom)
	}
	return p
}

func (c *compiler) fill(p *plan, goType reflect.Type, atom smd.Atom) {
	if entry := value.TypeReflectEntryOf(goType); entry.CanConvertToUnstructured() {
		p.kind, p.entry = converted(goType, atom), entry
		return
	}
	switch goType.Kind() {
	case reflect.Struct:
		if atom.Map != nil {
			c.structure(p, goType, atom.Map)
		}
	case reflect.Map:
		if atom.Map != nil && len(atom.Map.Fields) == 0 && goType.Key().Kind() == reflect.String && (atom.Map.ElementType != smd.TypeRef{}) {
			p.kind, p.atomic = planMap, atom.Map.ElementRelationship == smd.Atomic
			p.elem = c.plan(goType.Elem(), atom.Map.ElementType)
		}
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			p.kind = scalarKind(planBytes, atom, smd.String)
		} else if atom.List != nil && atom.Map == nil && atom.Scalar == nil {
			c.slice(p, goType, atom.List)
		}
	case reflect.String:
		p.kind = scalarKind(planText, atom, smd.String)
	case reflect.Bool:
		p.kind = scalarKind(planBool, atom, smd.Boolean)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.kind = scalarKind(planInt, atom, smd.Numeric)
	case reflect.Uint, reflect.Uint16, reflect.Uint32:
		p.kind = scalarKind(planUint, atom, smd.Numeric)
	case reflect.Float32, reflect.Float64:
		p.kind = scalarKind(planFloat, atom, smd.Numeric)
	}
}

// scalarKind returns kind if the merge schema permits such scalars, otherwise planUnsupported.
func scalarKind(kind planKind, atom smd.Atom, as smd.Scalar) planKind {
	if atom.Scalar == nil || *atom.Scalar != as && *atom.Scalar != smd.Untyped {
		return planUnsupported
	}
	return kind
}

// converted returns the planKind of a type with its own JSON encoding.
func converted(goType reflect.Type, atom smd.Atom) planKind {
	switch goType {
	case reflect.TypeFor[metav1.FieldsV1]():
		return planManagedFields
	case reflect.TypeFor[metav1.Time]():
		return scalarKind(planTime, atom, smd.String)
	case reflect.TypeFor[metav1.MicroTime]():
		return scalarKind(planMicroTime, atom, smd.String)
	case reflect.TypeFor[metav1.Duration]():
		return scalarKind(planDuration, atom, smd.String)
	case reflect.TypeFor[resource.Quantity]():
		return scalarKind(planQuantity, atom, smd.String)
	case reflect.TypeFor[intstr.IntOrString]():
		return scalarKind(planIntOrString, atom, smd.Untyped)
	}
	if acceptsAnything(atom) {
		return planDocument
	}
	return planUnsupported
}

// acceptsAnything reports whether every JSON value conforms to a merge schema.
func acceptsAnything(atom smd.Atom) bool {
	return atom.Scalar != nil && *atom.Scalar == smd.Untyped &&
		atom.List != nil && atom.List.ElementRelationship == smd.Atomic && anything(atom.List.ElementType) &&
		atom.Map != nil && len(atom.Map.Fields) == 0 && anything(atom.Map.ElementType)
}

func anything(ref smd.TypeRef) bool {
	return ref.NamedType != nil && (*ref.NamedType == "__untyped_atomic_" || *ref.NamedType == "__untyped_deduced_")
}

func (c *compiler) structure(p *plan, goType reflect.Type, m *smd.Map) {
	fields := map[string]field{}
	if !jsonFields(goType, nil, fields) {
		return
	}
	p.kind, p.atomic = planStruct, m.ElementRelationship == smd.Atomic
	for name, f := range fields {
		ref := m.ElementType
		if declared, ok := m.FindField(name); ok {
			ref = declared.Type
		}
		f.name = name
		fieldType := goType.FieldByIndex(f.index).Type
		f.managed = fieldType == reflect.TypeFor[[]metav1.ManagedFieldsEntry]()
		if (ref == smd.TypeRef{}) {
			f.plan = &plan{kind: planUnsupported}
			c.all = append(c.all, f.plan)
		} else {
			f.plan = c.plan(fieldType, ref)
		}
		p.fields = append(p.fields, f)
	}
	slices.SortStableFunc(p.fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
}

// jsonFields collects the fields of a struct and its embedded structs. Later fields replace earlier fields
// with the same name. It returns false for embedded pointers.
func jsonFields(goType reflect.Type, path []int, into map[string]field) bool {
	for i := range goType.NumField() {
		f := goType.Field(i)
		tag := f.Tag.Get("json")
		if !f.IsExported() && !f.Anonymous || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		index := append(slices.Clone(path), i)
		if f.Anonymous && name == "" {
			if f.Type.Kind() == reflect.Pointer {
				return false
			}
			if f.Type.Kind() == reflect.Struct && !jsonFields(f.Type, index, into) {
				return false
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		have := field{index: index}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
				have.omitEmpty = true
			case "omitzero":
				have.omitZero = omitZero(f.Type)
			}
		}
		into[name] = have
	}
	return true
}

func omitZero(goType reflect.Type) func(reflect.Value) bool {
	if goType == reflect.TypeFor[metav1.Time]() || goType == reflect.TypeFor[metav1.MicroTime]() {
		return isZeroTime
	}
	return value.OmitZeroFunc(goType)
}

func (c *compiler) slice(p *plan, goType reflect.Type, l *smd.List) {
	p.kind, p.atomic = planList, l.ElementRelationship == smd.Atomic
	if p.associative = !p.atomic; p.associative {
		c.lists = append(c.lists, associativeList{p, l})
	}
	p.elem = c.plan(goType.Elem(), l.ElementType)
}

// An associativeList is a list whose keys are not determined yet, because the plan of its items might be
// incomplete.
type associativeList struct {
	plan   *plan
	schema *smd.List
}

func (c *compiler) finish(a associativeList) {
	p, l := a.plan, a.schema
	switch {
	case l.ElementRelationship != smd.Associative:
		p.kind = planUnsupported
	case len(l.Keys) == 0:
		if p.elem.kind != planText && p.elem.kind != planInt && p.elem.kind != planBool {
			p.kind = planUnsupported
		}
	case p.elem.kind != planStruct || !c.keys(p, l):
		p.kind = planUnsupported
	}
}

// keys determines the key fields of a list's items. It returns false if a key is unsupported.
func (c *compiler) keys(p *plan, l *smd.List) bool {
	atom, ok := c.schema.Resolve(l.ElementType)
	if !ok || atom.Map == nil {
		return false
	}
	p.keysOptional = true
	for _, name := range slices.Sorted(slices.Values(l.Keys)) {
		key := keyField{name: name}
		if declared, ok := atom.Map.FindField(name); ok && declared.Default != nil {
			encoded, err := appendScalar(nil, declared.Default)
			if err != nil {
				return false
			}
			key.fallback = encoded
			p.keysOptional = false
		}
		for i := range p.elem.fields {
			f := &p.elem.fields[i]
			if f.name != name {
				continue
			}
			key.field = f
			if f.plan.kind != planText && f.plan.kind != planInt && f.plan.kind != planBool {
				return false
			}
			if !f.omitEmpty && f.omitZero == nil {
				p.keysOptional = false
			}
		}
		p.keys = append(p.keys, key)
	}
	return true
}
