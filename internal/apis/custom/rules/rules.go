package rules

import (
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
	"mainstay.dev/mainstay/internal/cel/typed"
)

// Rules are the rules of a schema. The rules of a node are compiled when an object first has a
// value there. A nil *Rules is empty. It is safe for concurrent use.
type Rules struct {
	root     *node
	compiled *expressions
	metrics  *Metrics
}

// node is a node of a schema that has rules, or has such nodes below it.
type node struct {
	typ      *typed.Type // nil where there are no rules
	jsonType string
	rules    []apiextensions.ValidationRule
	// paths are the field paths of the rules' errors, by rule; empty for the value
	// itself.
	paths []string

	names   []string // of members, sorted
	members map[string]*node
	// elements is the node of items or additionalProperties.
	elements *node
	// keys are the keys of a list map, nil for other lists.
	keys []string

	once  sync.Once
	ready compiledRules
}

// New returns the rules of a schema, or nil if it has no rules. resource reports that the values
// are resources, which have type and metadata in expressions.
func New(props *apiextensions.JSONSchemaProps, resource bool) *Rules {
	return new(Compiler).Rules(props, resource)
}

// Measured returns the same rules, which report to metrics. The receiver may be nil and must not be used
// after the call.
func (r *Rules) Measured(metrics *Metrics) *Rules {
	if r != nil {
		r.metrics = metrics
	}
	return r
}

// Compiler makes Rules that share compiled expressions, for schemas with much in common,
// such as the parts of one. The zero value is ready for use. It is not safe for concurrent
// use; its Rules are.
type Compiler struct {
	types    typed.Builder
	compiled *expressions
}

// Rules is New with the environments of the Compiler.
func (c *Compiler) Rules(props *apiextensions.JSONSchemaProps, resource bool) *Rules {
	if !hasRules(props) {
		return nil
	}
	root := c.node(props, c.types.Build(props, resource))
	if root == nil {
		return nil
	}
	return &Rules{root: root, compiled: c.expressions()}
}

func (c *Compiler) expressions() *expressions {
	if c.compiled == nil {
		c.compiled = &expressions{}
	}
	return c.compiled
}

// hasRules reports whether a schema has rules, which allOf, anyOf, oneOf and not cannot
// have.
func hasRules(props *apiextensions.JSONSchemaProps) bool {
	if props == nil {
		return false
	}
	if len(props.XValidations) > 0 || props.Items != nil && hasRules(props.Items.Schema) ||
		props.AdditionalProperties != nil && hasRules(props.AdditionalProperties.Schema) {
		return true
	}
	if len(props.Properties) == 0 {
		return false
	}
	member := new(apiextensions.JSONSchemaProps) // one for all: it is large
	for name := range props.Properties {
		if *member = props.Properties[name]; hasRules(member) {
			return true
		}
	}
	return false
}

// node returns the node of a schema with a type; nil if it has no rules, or expressions
// cannot access its values.
func (c *Compiler) node(props *apiextensions.JSONSchemaProps, t *typed.Type) *node {
	if t == nil || !hasRules(props) {
		return nil
	}
	n := &node{jsonType: props.Type, rules: props.XValidations}
	if len(n.rules) > 0 {
		n.typ = t
	}
	n.paths = make([]string, len(n.rules))
	for i := range n.rules {
		if text := n.rules[i].FieldPath; text != "" {
			if path, _, err := FieldAt(props, text, true); err == nil {
				n.paths[i] = path.String()
			}
		}
	}
	if props.XListType != nil && *props.XListType == "map" {
		n.keys = props.XListMapKeys
	}
	switch {
	case props.Items != nil && props.Items.Schema != nil:
		n.elements = c.node(props.Items.Schema, t.Items())
	case props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil:
		n.elements = c.node(props.AdditionalProperties.Schema, t.Items())
	}
	for name, member := range schema.Members(props) {
		if made := c.node(member, c.memberType(t, name, member)); made != nil {
			if n.members == nil {
				n.members = map[string]*node{}
			}
			n.members[name] = made
			n.names = append(n.names, name)
		}
	}
	return n
}

// memberType returns the type of a member of an object; nil if expressions cannot access
// it. A member without a name in CEL is accessible to its own rules.
func (c *Compiler) memberType(t *typed.Type, name string, member *apiextensions.JSONSchemaProps) *typed.Type {
	if _, ok := typed.Escape(name); ok {
		return t.Field(name)
	}
	if !hasRules(member) {
		return nil
	}
	return c.types.Build(member, member.XEmbeddedResource)
}
