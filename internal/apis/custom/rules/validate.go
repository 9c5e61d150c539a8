package rules

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
	"mainstay.dev/mainstay/internal/cel/environment"
)

// Budget is the cost budget for validating one object.
const Budget int64 = environment.RuntimeBudget

// Options are the options of Rules.Validate.
type Options struct {
	// Old is the old value, or nil. Transition rules apply only to values with an old value.
	Old any
	// Ratchet turns errors of unchanged values into warnings (KEP-4008), except errors of transition
	// rules.
	Ratchet bool
	// Schema is the schema of the value, which determines how it is compared with Old; if Schema is nil, they
	// are compared without a schema.
	Schema *schema.Schema
	// Budget is the total cost budget of all rules, usually the constant Budget. If it is 0, the first rule
	// exceeds the budget.
	Budget int64
}

// Validate returns the errors of a value according to the rules, with paths below at, and the remaining cost
// budget. A negative remaining budget means that the validation was stopped before all rules were evaluated,
// for example because ctx ended. The value must be valid according to the schema and must not be modified
// concurrently.
func (r *Rules) Validate(ctx context.Context, at *field.Path, value any, o Options) (field.ErrorList, int64) {
	if r == nil {
		return nil, o.Budget
	}
	v := validation{ctx: ctx, rules: r, schema: o.Schema, at: at, budget: o.Budget}
	v.value(r.root, &place{value: value, old: o.Old, correlated: o.Ratchet})
	return v.errs, v.budget
}

// validation is one validation of a value.
type validation struct {
	ctx    context.Context
	rules  *Rules
	schema *schema.Schema
	at     *field.Path
	budget int64
	errs   field.ErrorList
	// unchecked is the number of rules since the last check of ctx.
	unchecked int
}

// place is a value and its path. It is an element of a linked list on the stack of the walk.
type place struct {
	above *place
	// name, or index if inList is set, is the last element of the path. additional is set if name is a key of
	// additionalProperties.
	name               string
	index              int
	inList, additional bool
	value, old         any
	// correlated is set if old is the old value of value.
	correlated bool
	// hidden is set for apiVersion and kind of the document, which are never treated as unchanged.
	hidden bool
	// compared is set once unchanged has been determined.
	compared, unchanged bool
}

func (p *place) path(at *field.Path) *field.Path {
	if p.above == nil {
		return at
	}
	at = p.above.path(at)
	switch {
	case p.inList:
		return at.Index(p.index)
	case p.additional:
		return at.Key(p.name)
	}
	return at.Child(p.name)
}

// isUnchanged reports whether the nearest enclosing value that can be correlated with an old value is
// unchanged.
func (p *place) isUnchanged(root *schema.Schema) bool {
	for ; p != nil && !p.hidden; p = p.above {
		if !p.correlated {
			continue
		}
		if !p.compared {
			p.compared, p.unchanged = true, p.schema(root).Unchanged(p.value, p.old)
		}
		return p.unchanged
	}
	return false
}

// schema returns the schema of the value, or nil if it is not known.
func (p *place) schema(root *schema.Schema) *schema.Schema {
	if p.above == nil {
		return root
	}
	s := p.above.schema(root)
	switch {
	case s == nil:
		return nil
	case p.inList:
		return s.Items
	case p.additional:
		return s.Additional
	}
	return s.Properties[p.name]
}

// maxFaults is the maximum number of returned faults. Without this limit, each of a million entries could have
// a fault before the budget is exceeded.
const maxFaults = 1 << 10

// value validates a value and all values below it. It returns false if the budget is exceeded or there are maxFaults
// faults.
func (v *validation) value(n *node, p *place) bool {
	if len(v.errs) >= maxFaults {
		return false
	}
	if p.value == nil {
		return true // only rules of the parent apply to null
	}
	if len(n.rules) > 0 && !v.rulesOf(n, p) {
		return false
	}
	switch value := p.value.(type) {
	case map[string]any:
		old, _ := p.old.(map[string]any)
		return v.members(n, p, value, old)
	case []any:
		old, _ := p.old.([]any)
		return v.elements(n, p, value, old)
	}
	return true
}

func (v *validation) members(n *node, p *place, object, old map[string]any) bool {
	if n.elements != nil {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !v.member(n.elements, p, name, true, object[name], old) {
				return false
			}
		}
	}
	for _, name := range n.names {
		if value, found := object[name]; found && !v.member(n.members[name], p, name, false, value, old) {
			return false
		}
	}
	return true
}

func (v *validation) member(n *node, p *place, name string, additional bool, value any, old map[string]any) bool {
	was, found := old[name]
	return v.value(n, &place{
		above: p, name: name, additional: additional, value: value, old: was, correlated: p.correlated && found,
		// Both documents were converted to the same version, so a comparison would be meaningless.
		hidden: p.above == nil && (name == "apiVersion" || name == "kind"),
	})
}

// elements validates the elements of a list. Only the elements of list maps can be correlated with old
// elements.
func (v *validation) elements(n *node, p *place, list, old []any) bool {
	if n.elements == nil {
		return true
	}
	var before map[any]any
	if len(n.keys) > 0 && len(old) > 0 {
		before = byKeys(n.keys, old)
	}
	for i, value := range list {
		below := place{above: p, inList: true, index: i, value: value}
		if before != nil {
			if key, ok := keyOf(n.keys, value); ok {
				below.old = before[key]
				below.correlated = p.correlated && below.old != nil
			}
		}
		if !v.value(n.elements, &below) {
			return false
		}
	}
	return true
}

// byKeys returns the entries of a list map, indexed by the values of their keys. Of entries with equal keys,
// the result contains the first one.
func byKeys(keys []string, list []any) map[any]any {
	entries := make(map[any]any, len(list))
	for _, entry := range list {
		if key, ok := keyOf(keys, entry); ok {
			if _, twice := entries[key]; !twice {
				entries[key] = entry
			}
		}
	}
	return entries
}

// keyOf returns the key of a list map's entry, or false if the entry is not an object or lacks a key.
func keyOf(keys []string, entry any) (any, bool) {
	members, ok := entry.(map[string]any)
	if !ok {
		return nil, false
	}
	if len(keys) == 1 {
		return scalar(members[keys[0]])
	}
	// Nested pairs [a, [b, [c, d]]] are comparable; slices are not.
	var key any
	for _, name := range slices.Backward(keys) {
		value, ok := scalar(members[name])
		if !ok {
			return nil, false
		}
		if key == nil {
			key = value
		} else {
			key = [2]any{value, key}
		}
	}
	return key, true
}

func scalar(value any) (any, bool) {
	switch value.(type) {
	case string, int64, float64, bool:
		return value, true
	}
	return nil, false
}
