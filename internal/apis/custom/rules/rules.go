package rules

import (
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
	"mainstay.dev/mainstay/internal/cel/typed"
)

// Rules contains the rules of a schema. The rules of a node are compiled when an object first has a
// value at the node. A nil *Rules is empty. It is safe for concurrent use.
type Rules struct {
	root     *node
	compiled *expressions
	metrics  *Metrics
}

// node is a node of a schema that has rules or a descendant with rules.
type node struct {
	typ      *typed.Type // nil if the node has no rules
	jsonType string
	rules    []apiextensions.ValidationRule
	// paths contains the field path for the errors of each rule, relative to the value. An empty path means the
	// value itself.
	paths []string

	names   []string // keys of members, sorted
	members map[string]*node
	// elements is the node of items or additionalProperties.
	elements *node
	// keys contains the keys of a list map. It is nil for other lists.
	keys []string

	once  sync.Once
	ready compiledRules
}

// New returns the rules of a schema, or nil if it has no rules. It compiles nothing. resource is true if the
// values are resources, so that expressions can access apiVersion, kind and metadata.
func New(props *apiextensions.JSONSchemaProps, resource bool) *Rules {
	return new(Compiler).Rules(props, resource)
}

// WithMetrics sets the metrics of r and returns r, which may be nil and must not be in use yet.
func (r *Rules) WithMetrics(metrics *Metrics) *Rules {
	if r != nil {
		r.metrics = metrics
	}
	return r
}

// Compiler creates Rules that share compiled expressions, for similar schemas such as parts of one
// schema. The zero value is ready for use. A Compiler is not safe for concurrent use; its Rules are.
type Compiler struct {
	types    typed.Builder
	compiled *expressions
}

// Rules is like New, but shares equal expressions with the other Rules of c.
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

// hasRules reports whether a schema contains rules. It skips allOf, anyOf, oneOf and not, which cannot
// contain any.
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
	member := new(apiextensions.JSONSchemaProps) // reused, because a copy is large
	for name := range props.Properties {
		if *member = props.Properties[name]; hasRules(member) {
			return true
		}
	}
	return false
}

// node returns the node of a schema whose values have the type t. It returns nil if the schema has no
// rules, or if expressions cannot access its values.
func (c *Compiler) node(props *apiextensions.JSONSchemaProps, t *typed.Type) *node {
	if t == nil {
		return nil
	}
	n := &node{jsonType: props.Type, rules: props.XValidations}
	if len(n.rules) > 0 {
		n.typ = t
	}
	if len(n.rules) > 0 {
		n.paths = make([]string, len(n.rules))
	}
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
		// A member whose name is not expressible in CEL is still accessible to its own rules.
		if compiled := c.node(member, t.Member(name)); compiled != nil {
			if n.members == nil {
				n.members = map[string]*node{}
			}
			n.members[name] = compiled
			n.names = append(n.names, name)
		}
	}
	// A search for rules below each node before its compilation would take quadratic time for deep schemas.
	if len(n.rules) == 0 && n.elements == nil && len(n.members) == 0 {
		return nil
	}
	return n
}
