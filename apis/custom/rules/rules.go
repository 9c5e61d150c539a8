package rules

import (
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"mainstay.dev/mainstay/apis/custom/schema"
	"mainstay.dev/mainstay/cel/typed"
)

// Rules are the rules of a schema. They are compiled where an object first has a
// value that they are about. A nil *Rules has none. It is safe for concurrent
// use.
type Rules struct {
	root     *node
	compiled *expressions
}

// node is a place in a schema that has rules, or has such places below it.
type node struct {
	typ      *typed.Type // nil where there are no rules
	jsonType string
	rules    []apiextensions.ValidationRule
	// paths are those of the fields that rules say are at fault, by rule; empty
	// for the value itself.
	paths []string

	names   []string // of members, sorted
	members map[string]*node
	// elements is the node of all elements of a list, or of all members of an
	// object with free names.
	elements *node
	// keys are those of a list map, nil for other lists.
	keys []string

	once  sync.Once
	ready compiledRules
}

// New returns the rules of a schema, nil if it has none. resource reports whether
// the values are resources, which have a type and metadata that expressions see.
func New(props *apiextensions.JSONSchemaProps, resource bool) *Rules {
	return new(Compiler).Rules(props, resource)
}

// Compiler makes Rules of schemas that have much in common, such as the parts of
// one schema: they share what they compile. The zero value is ready. It is for
// one goroutine, but the Rules it has made are not.
type Compiler struct {
	types    typed.Maker
	compiled *expressions
}

// Rules does what New does.
func (c *Compiler) Rules(props *apiextensions.JSONSchemaProps, resource bool) *Rules {
	if !hasRules(props) {
		return nil
	}
	root := c.node(props, c.types.Make(props, resource))
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

// hasRules reports whether there are rules in a schema, but for alternatives, which
// have none.
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

// node returns the node of a schema of a type, nil where there are no rules in
// it, or where expressions cannot see its values.
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

// memberType returns the type of a member of an object; nil where its values are
// not seen. What has no name in CEL is seen by its own rules.
func (c *Compiler) memberType(t *typed.Type, name string, member *apiextensions.JSONSchemaProps) *typed.Type {
	if _, ok := typed.Escape(name); ok {
		return t.Field(name)
	}
	if !hasRules(member) {
		return nil
	}
	return c.types.Make(member, member.XEmbeddedResource)
}
