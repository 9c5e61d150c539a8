package schema

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// Members yields the properties of an object schema and their schemas, sorted by name. The yielded pointer is
// reused, so it is valid only until the next iteration.
func Members(props *apiextensions.JSONSchemaProps) iter.Seq2[string, *apiextensions.JSONSchemaProps] {
	return func(yield func(string, *apiextensions.JSONSchemaProps) bool) {
		if len(props.Properties) == 0 {
			return
		}
		member := new(apiextensions.JSONSchemaProps)
		for _, name := range slices.Sorted(maps.Keys(props.Properties)) {
			*member = props.Properties[name]
			if !yield(name, member) {
				return
			}
		}
	}
}

// Walk calls visit for a schema and all schemas in it. visit must not retain its argument, which is
// reused.
func Walk(props *apiextensions.JSONSchemaProps, visit func(*apiextensions.JSONSchemaProps)) {
	if props == nil {
		return
	}
	visit(props)
	lists := [][]apiextensions.JSONSchemaProps{props.AllOf, props.AnyOf, props.OneOf}
	if props.Items != nil {
		Walk(props.Items.Schema, visit)
		lists = append(lists, props.Items.JSONSchemas)
	}
	for _, list := range lists {
		for i := range list {
			Walk(&list[i], visit)
		}
	}
	Walk(props.Not, visit)
	for _, members := range []map[string]apiextensions.JSONSchemaProps{props.Properties, props.PatternProperties, props.Definitions} {
		if len(members) == 0 {
			continue
		}
		member := new(apiextensions.JSONSchemaProps) // reused, because a copy is large
		for name := range members {
			*member = members[name]
			Walk(member, visit)
		}
	}
	for _, other := range []*apiextensions.JSONSchemaPropsOrBool{props.AdditionalProperties, props.AdditionalItems} {
		if other != nil {
			Walk(other.Schema, visit)
		}
	}
	for _, dependency := range props.Dependencies {
		Walk(dependency.Schema, visit)
	}
}
