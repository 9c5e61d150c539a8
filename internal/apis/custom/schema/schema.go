// Package schema compiles the structural schemas (KEP-1693) of custom resource definitions, and
// prunes, defaults and validates documents with them. A document is decoded JSON with the Go types of
// encoding/json, except that integers are int64. Package definition validates the schemas themselves
// before they are stored.
package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// Schema is the compiled schema of a value and of its members or elements. It is immutable and safe
// for concurrent use.
type Schema struct {
	// Type is a JSON type; "" allows all types, or only integer and string if IntOrString is set.
	Type string
	// Nullable allows null.
	Nullable bool
	// IntOrString, PreserveUnknown and Embedded are x-kubernetes-int-or-string,
	// x-kubernetes-preserve-unknown-fields and x-kubernetes-embedded-resource.
	IntOrString, PreserveUnknown, Embedded bool
	// ListType, MapType and ListKeys specify the merge strategy of lists and maps. ListKeys is sorted.
	ListType, MapType string
	ListKeys          []string
	// Properties contains the schemas of members, keyed by name. Items is the schema of list elements.
	Properties map[string]*Schema
	Items      *Schema
	// Open allows members that are not in Properties. Additional is the schema of these members, or nil if they
	// may have any value.
	Open       bool
	Additional *Schema
	// Default is the default value of a missing member, or nil.
	Default any

	names     []string // keys of Properties, sorted
	defaulted []string // the names with a default
	// defaultSize is the approximate memory of Default, in bytes.
	defaultSize int
	types       []string // JSON types that Type and IntOrString allow; nil allows all
	rules       rules
	below       features // features of this schema and its children
}

// rules contains the value validations of a schema.
type rules struct {
	format                       string
	maximum, minimum, multipleOf *float64
	aboveMinimum, belowMaximum   bool // the limits themselves are excluded
	maxLength, minLength         *int64
	maxItems, minItems           *int64
	maxProperties, minProperties *int64
	pattern                      *expression
	enum                         []any
	enumTexts                    map[string]bool // the strings of a long enum; nil for a short enum
	required                     []string
	closed                       bool // additionalProperties: false
	allOf, anyOf, oneOf          []*Schema
	not                          *Schema
}

// features is the set of features that occur in a schema. A walk over a document is skipped if the schema lacks
// the feature that the walk processes.
type features uint8

const (
	hasLists features = 1 << iota // lists of type set or map
	hasEmbedded
)

// Compile compiles an OpenAPI v3 schema. It returns an error for an invalid pattern, which cannot
// occur in an accepted definition. The result shares default and enum values with props.
func Compile(props *apiextensions.JSONSchemaProps) (*Schema, error) {
	return compiler{}.schema(props)
}

// compiler contains the compiled patterns of one call to Compile, keyed by pattern.
type compiler map[string]*expression

func (c compiler) schema(props *apiextensions.JSONSchemaProps) (*Schema, error) {
	s := &Schema{
		Type: props.Type, Nullable: props.Nullable, IntOrString: props.XIntOrString, Embedded: props.XEmbeddedResource,
		PreserveUnknown: props.XPreserveUnknownFields != nil && *props.XPreserveUnknownFields,
		ListType:        deref(props.XListType), MapType: deref(props.XMapType), ListKeys: slices.Sorted(slices.Values(props.XListMapKeys)),
	}
	if props.Default != nil {
		s.Default = *props.Default
		s.defaultSize = sizeOf(s.Default)
	}
	switch {
	case s.IntOrString:
		s.types = []string{"integer", "string"}
	case s.Type != "":
		s.types = []string{s.Type}
	}
	if err := c.below(s, props); err != nil {
		return nil, err
	}
	if err := c.rules(&s.rules, props); err != nil {
		return nil, err
	}
	s.setFeatures()
	return s, nil
}

func deref(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// below compiles the children of a schema.
func (c compiler) below(s *Schema, props *apiextensions.JSONSchemaProps) error {
	if len(props.Properties) > 0 {
		s.Properties = make(map[string]*Schema, len(props.Properties))
		s.names = make([]string, 0, len(props.Properties))
		for name, member := range Members(props) {
			compiled, err := c.schema(member)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			s.names = append(s.names, name)
			if compiled.Default != nil {
				s.defaulted = append(s.defaulted, name)
			}
			s.Properties[name] = compiled
		}
	}
	if props.Items != nil && props.Items.Schema != nil {
		compiled, err := c.schema(props.Items.Schema)
		if err != nil {
			return fmt.Errorf("items: %w", err)
		}
		s.Items = compiled
	}
	additional := props.AdditionalProperties
	if additional == nil {
		return nil
	}
	s.Open = additional.Allows || additional.Schema != nil
	s.rules.closed = !s.Open
	if additional.Schema != nil {
		compiled, err := c.schema(additional.Schema)
		if err != nil {
			return fmt.Errorf("additionalProperties: %w", err)
		}
		s.Additional = compiled
	}
	return nil
}

func (c compiler) rules(r *rules, props *apiextensions.JSONSchemaProps) error {
	r.format = knownFormat(props.Type, props.Format)
	r.maximum, r.belowMaximum, r.minimum, r.aboveMinimum = props.Maximum, props.ExclusiveMaximum, props.Minimum, props.ExclusiveMinimum
	r.multipleOf, r.required = props.MultipleOf, props.Required
	r.maxLength, r.minLength, r.maxItems, r.minItems = props.MaxLength, props.MinLength, props.MaxItems, props.MinItems
	r.maxProperties, r.minProperties = props.MaxProperties, props.MinProperties
	r.setEnum(props.Enum)
	if props.Pattern != "" {
		var err error
		if r.pattern, err = c.pattern(props.Pattern); err != nil {
			return fmt.Errorf("pattern: %w", err)
		}
	}
	var err error
	if r.allOf, err = c.all(props.AllOf); err != nil {
		return fmt.Errorf("allOf: %w", err)
	}
	if r.anyOf, err = c.all(props.AnyOf); err != nil {
		return fmt.Errorf("anyOf: %w", err)
	}
	if r.oneOf, err = c.all(props.OneOf); err != nil {
		return fmt.Errorf("oneOf: %w", err)
	}
	if props.Not != nil {
		if r.not, err = c.schema(props.Not); err != nil {
			return fmt.Errorf("not: %w", err)
		}
	}
	return nil
}

// setEnum sets enum and, for a long enum, enumTexts.
func (r *rules) setEnum(values []apiextensions.JSON) {
	const short = 16 // a search of this length is as fast as a map
	if len(values) > short {
		r.enumTexts = map[string]bool{}
	}
	for _, value := range values {
		r.enum = append(r.enum, any(value))
		if text, ok := value.(string); ok && r.enumTexts != nil {
			r.enumTexts[text] = true
		}
	}
}

// pattern returns the shared expression of a pattern.
func (c compiler) pattern(text string) (*expression, error) {
	if known := c[text]; known != nil {
		return known, nil
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		return nil, err
	}
	c[text] = &expression{text: text}
	return c[text], nil
}

// expression is a valid regular expression, compiled on first use. Most expressions are never used,
// and a short one can occupy 200 KB.
type expression struct {
	text   string
	once   sync.Once
	regexp *regexp.Regexp
}

func (e *expression) compiled() *regexp.Regexp {
	e.once.Do(func() { e.regexp = regexp.MustCompile(e.text) })
	return e.regexp
}

func (c compiler) all(list []apiextensions.JSONSchemaProps) ([]*Schema, error) {
	var compiled []*Schema
	for i := range list {
		s, err := c.schema(&list[i])
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, s)
	}
	return compiled, nil
}

func (s *Schema) setFeatures() {
	if s.ListType == "set" || s.ListType == "map" {
		s.below |= hasLists
	}
	if s.Embedded {
		s.below |= hasEmbedded
	}
	for _, member := range s.Properties {
		s.below |= member.below
	}
	for _, inner := range []*Schema{s.Items, s.Additional} {
		if inner != nil {
			s.below |= inner.below
		}
	}
}

// member returns the schema of a member of an object, or nil if it has no schema. known reports
// whether the schema allows the member.
func (s *Schema) member(name string) (member *Schema, known bool) {
	if member, known = s.Properties[name]; known {
		return member, true
	}
	return s.Additional, s.Open
}

// Lookup returns the schema at a dotted path without indexes, such as .spec.size, or nil if there is no such
// schema.
func (s *Schema) Lookup(path string) *Schema {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		if s == nil {
			return nil
		}
		s = s.Properties[name]
	}
	return s
}

// AsResource returns a shallow copy of the schema for values that are resources. The copy also validates their
// apiVersion, kind and metadata.
func (s *Schema) AsResource() *Schema {
	resource := *s
	resource.Embedded = true
	resource.below |= hasEmbedded
	return &resource
}
