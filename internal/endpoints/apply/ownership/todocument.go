package ownership

import (
	"encoding/base64"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// objectDocument converts an object to a JSON document without its managed fields.
func (d *differ) objectDocument(p *plan, v reflect.Value) map[string]any {
	v, _ = p.deref(v)
	out := make(map[string]any, len(p.fields))
	for i := range p.fields {
		f := &p.fields[i]
		below, omitted := f.of(v)
		switch {
		case omitted:
		case f.name == "metadata" && f.plan.kind == planStruct:
			below, _ = f.plan.deref(below)
			out[f.name] = d.structDocument(f.plan, below, true)
		default:
			out[f.name] = d.toDocument(f.plan, below)
		}
	}
	return out
}

// toDocument converts a Go value to a JSON value, as structured-merge-diff does.
func (d *differ) toDocument(p *plan, v reflect.Value) any {
	v, null := p.deref(v)
	if null {
		return nil
	}
	switch p.kind {
	case planStruct:
		return d.structDocument(p, v, false)
	case planMap:
		if m, ok := v.Interface().(map[string]string); ok && p.elem.kind == planText {
			return textDocument(m)
		}
		out := make(map[string]any, v.Len())
		for entries := v.MapRange(); entries.Next(); {
			out[entries.Key().String()] = d.toDocument(p.elem, entries.Value())
		}
		return out
	case planList:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = d.toDocument(p.elem, v.Index(i))
		}
		return out
	case planText:
		return v.String()
	case planBool:
		return v.Bool()
	case planInt:
		return v.Int()
	case planUint:
		return int64(v.Uint())
	case planFloat:
		return v.Float()
	case planBytes:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case planTime:
		return as[metav1.Time](v).ToUnstructured()
	case planIntOrString:
		if x := as[intstr.IntOrString](v); x.Type == intstr.Int {
			return int64(x.IntVal)
		}
		return as[intstr.IntOrString](v).StrVal
	case planDocument, planManagedFields, planQuantity, planMicroTime, planDuration:
		doc, err := p.entry.ToUnstructured(v)
		if err != nil {
			d.fail(err)
		}
		return doc
	}
	d.fail(errUnsupported)
	return nil
}

func (d *differ) structDocument(p *plan, v reflect.Value, withoutManaged bool) any {
	n := 0
	for i := range p.fields {
		if _, omitted := p.fields[i].of(v); !omitted {
			n++
		}
	}
	out := make(map[string]any, n)
	for i := range p.fields {
		f := &p.fields[i]
		if below, omitted := f.of(v); !omitted && !(f.managed && withoutManaged) {
			out[f.name] = d.toDocument(f.plan, below)
		}
	}
	return out
}

func textDocument(m map[string]string) any {
	out := make(map[string]any, len(m))
	for name, value := range m {
		out[name] = value
	}
	return out
}
