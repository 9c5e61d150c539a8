package definition

import (
	"fmt"
	"maps"
	"reflect"
	"regexp/syntax"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
)

type props = apiextensions.JSONSchemaProps

// structural collects the violations of the rules for structural schemas (KEP-1693). A structural
// schema specifies each field outside of allOf, anyOf, oneOf and not.
type structural struct{ errs field.ErrorList }

// full reports whether there are maxErrors errors.
func (v *structural) full() bool { return len(v.errs) >= maxErrors }

// structuralFaults returns about the first maxErrors violations, sorted by text.
func structuralFaults(s *props, at *field.Path) field.ErrorList {
	var v structural
	v.node(s, rootLevel, at)
	v.complete(s, s, at, at)
	texts := make(map[*field.Error]string, len(v.errs))
	for _, err := range v.errs {
		texts[err] = err.Error()
	}
	slices.SortFunc(v.errs, func(a, b *field.Error) int { return strings.Compare(texts[a], texts[b]) })
	return v.errs
}

// NonStructuralSchema returns the NonStructuralSchema condition of a definition that has a non-structural
// schema or sets spec.preserveUnknownFields, and nil for other definitions. Such definitions are no longer
// accepted, but kube-apiserver may have stored them. It returns an error if a schema cannot be converted.
func NonStructuralSchema(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinitionCondition, error) {
	var errs field.ErrorList
	if crd.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		internal, err := InternalSchema(version.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("check the schema of %s in version %s: %w", crd.Name, version.Name, err)
		}
		errs = append(errs, structuralFaults(internal, field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"))...)
	}
	if len(errs) == 0 {
		return nil, nil
	}
	return &apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue, Reason: "Violations", Message: errs.ToAggregate().Error(),
	}, nil
}

// level is the position of a node in a schema.
type level int

const (
	rootLevel level = iota
	itemLevel
	fieldLevel
)

// missingType returns the message for a node without a type.
func (l level) missingType() string {
	return [...]string{"must not be empty at the root", "must not be empty for specified array items", "must not be empty for specified object fields"}[l]
}

func (v *structural) add(err *field.Error) { v.errs = append(v.errs, err) }

func (v *structural) node(s *props, l level, at *field.Path) {
	if v.full() {
		return
	}
	items := itemsOf(s)
	if s.Type == "array" && items == nil {
		v.add(field.Required(at.Child("items"), "must be specified"))
	}
	if items != nil {
		v.node(items, itemLevel, at.Child("items"))
	}
	propertiesAt := at.Child("properties")
	for name, member := range schema.Members(s) {
		v.node(member, fieldLevel, propertiesAt.Key(name))
	}
	if additional := s.AdditionalProperties; additional != nil {
		if l == rootLevel {
			v.add(field.Forbidden(at.Child("additionalProperties"), "must not be used at the root"))
		}
		if additional.Schema != nil {
			v.node(additional.Schema, fieldLevel, at.Child("additionalProperties"))
		}
	}
	v.extensions(s, at)
	v.values(s, isIntOrString(s.AnyOf), len(s.AllOf) > 0 && isIntOrString(s.AllOf[0].AnyOf), at)
	v.typed(s, l, at)
	v.meta(s, l, at)
}

func itemsOf(s *props) *props {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func preserves(s *props) bool { return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields }

// extensions rejects extensions that cannot be combined.
func (v *structural) extensions(s *props, at *field.Path) {
	const detail = "must be false if x-kubernetes-int-or-string is true"
	if s.XIntOrString && preserves(s) {
		v.add(field.Invalid(at.Child("x-kubernetes-preserve-unknown-fields"), true, detail))
	}
	if s.XIntOrString && s.XEmbeddedResource {
		v.add(field.Invalid(at.Child("x-kubernetes-embedded-resource"), true, detail))
	}
}

// typed validates the type of a node, and adds an error if a required type is missing.
func (v *structural) typed(s *props, l level, at *field.Path) {
	switch {
	case s.XEmbeddedResource && s.Type == "":
		v.add(field.Required(at.Child("type"), "must be object if x-kubernetes-embedded-resource is true"))
	case s.XEmbeddedResource && s.Type != "object":
		v.add(field.Invalid(at.Child("type"), s.Type, "must be object if x-kubernetes-embedded-resource is true"))
	case s.Type == "" && !s.XIntOrString && !preserves(s):
		v.add(field.Required(at.Child("type"), l.missingType()))
	}
	if l == rootLevel && s.Type != "" && s.Type != "object" {
		v.add(field.Invalid(at.Child("type"), s.Type, "must be object at the root"))
	}
	if s.XEmbeddedResource && s.AdditionalProperties != nil {
		v.add(field.Forbidden(at.Child("additionalProperties"), "must not be used if x-kubernetes-embedded-resource is set"))
	}
	if s.XEmbeddedResource && !preserves(s) && len(s.Properties) == 0 {
		v.add(field.Required(at.Child("properties"), "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"))
	}
}

// meta validates the schemas of apiVersion, kind and metadata.
func (v *structural) meta(s *props, l level, at *field.Path) {
	if l != rootLevel && !s.XEmbeddedResource {
		return
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if member, found := s.Properties[name]; found && member.Type != "string" {
			v.add(field.Invalid(at.Child("properties").Key(name).Child("type"), member.Type, "must be string"))
		}
	}
	metadata, found := s.Properties["metadata"]
	if !found {
		return
	}
	metadataAt := at.Child("properties").Key("metadata")
	if metadata.Type != "object" {
		v.add(field.Invalid(metadataAt.Child("type"), metadata.Type, "must be object"))
	}
	if l == rootLevel && !namesOnly(metadata) {
		v.add(field.Forbidden(metadataAt, "must not specify anything other than name and generateName, but metadata is implicitly specified"))
	}
}

// namesOnly reports whether a schema of metadata restricts only name and generateName.
func namesOnly(metadata props) bool {
	for name := range metadata.Properties {
		if name != "name" && name != "generateName" {
			return false
		}
	}
	metadata.Properties, metadata.Type, metadata.Default = nil, "", nil
	return reflect.DeepEqual(metadata, props{})
}

// isIntOrString reports whether anyOf is the usual pattern of an int-or-string.
func isIntOrString(anyOf []props) bool {
	return len(anyOf) == 2 && reflect.DeepEqual(anyOf, []props{{Type: "integer"}, {Type: "string"}})
}

// values validates allOf, anyOf, oneOf and not of a node. skipAnyOf and skipFirstAllOf are set if anyOf, or
// anyOf in the first schema of allOf, is the pattern of an int-or-string, which is not validated.
func (v *structural) values(s *props, skipAnyOf, skipFirstAllOf bool, at *field.Path) {
	if !skipAnyOf {
		for i := range s.AnyOf {
			v.nested(&s.AnyOf[i], false, at.Child("anyOf").Index(i))
		}
	}
	for i := range s.AllOf {
		v.nested(&s.AllOf[i], skipFirstAllOf && i == 0, at.Child("allOf").Index(i))
	}
	for i := range s.OneOf {
		v.nested(&s.OneOf[i], false, at.Child("oneOf").Index(i))
	}
	if s.Not != nil {
		v.nested(s.Not, false, at.Child("not"))
	}
	if s.Pattern != "" {
		if _, err := syntax.Parse(s.Pattern, syntax.Perl); err != nil {
			v.add(field.Invalid(at.Child("pattern"), s.Pattern, fmt.Sprintf("must be a valid regular expression, but isn't: %v", err)))
		}
	}
}

// nested validates a schema in allOf, anyOf, oneOf or not, which may only contain value validations.
func (v *structural) nested(s *props, skipAnyOf bool, at *field.Path) {
	if v.full() {
		return
	}
	v.values(s, skipAnyOf, false, at)
	if items := itemsOf(s); items != nil {
		v.nested(items, false, at.Child("items"))
	}
	for name, member := range schema.Members(s) {
		v.nested(member, false, at.Child("properties").Key(name))
	}
	forbidden := []struct {
		said         bool
		name, detail string
	}{
		{s.Type != "", "type", "must be empty to be structural"},
		{s.AdditionalProperties != nil, "additionalProperties", "must be undefined to be structural"},
		{s.Default != nil && *s.Default != nil, "default", "must be undefined to be structural"},
		{s.Title != "", "title", "must be empty to be structural"},
		{s.Description != "", "description", "must be empty to be structural"},
		{s.Nullable, "nullable", "must be false to be structural"},
		{preserves(s), "x-kubernetes-preserve-unknown-fields", "must be false to be structural"},
		{s.XEmbeddedResource, "x-kubernetes-embedded-resource", "must be false to be structural"},
		{s.XIntOrString, "x-kubernetes-int-or-string", "must be false to be structural"},
		{len(s.XListMapKeys) > 0, "x-kubernetes-list-map-keys", "must be empty to be structural"},
		{s.XListType != nil, "x-kubernetes-list-type", "must be undefined to be structural"},
		{s.XMapType != nil, "x-kubernetes-map-type", "must be undefined to be structural"},
		{len(s.XValidations) > 0, "x-kubernetes-validations", "must be empty to be structural"},
	}
	for _, f := range forbidden {
		if f.said {
			v.add(field.Forbidden(at.Child(f.name), f.detail))
		}
	}
	if _, found := s.Properties["metadata"]; found {
		v.add(field.Forbidden(at.Child("properties").Key("metadata"), "must not be specified in a nested context"))
	}
}

// complete requires that the schema s, at the path sAt, specifies all fields that occur in allOf,
// anyOf, oneOf and not of n, at the path nAt.
func (v *structural) complete(n, s *props, sAt, nAt *field.Path) {
	v.completeAlternatives(n.AllOf, s, sAt, nAt.Child("allOf"))
	v.completeAlternatives(n.AnyOf, s, sAt, nAt.Child("anyOf"))
	v.completeAlternatives(n.OneOf, s, sAt, nAt.Child("oneOf"))
	if n.Not != nil {
		v.completeNested(n.Not, s, sAt, nAt.Child("not"))
	}
}

func (v *structural) completeAlternatives(list []props, s *props, sAt, at *field.Path) {
	for i := range list {
		v.completeNested(&list[i], s, sAt, at.Index(i))
	}
}

func (v *structural) completeNested(n, s *props, sAt, nAt *field.Path) {
	v.complete(n, s, sAt, nAt)
	if items := itemsOf(n); items != nil {
		v.completeMember(items, itemsOf(s), sAt.Child("items"), nAt.Child("items"))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		nMember := n.Properties[name]
		var outside *props
		if member, found := s.Properties[name]; found {
			outside = &member
		}
		v.completeMember(&nMember, outside, sAt.Child("properties").Key(name), nAt.Child("properties").Key(name))
	}
}

func (v *structural) completeMember(n, s *props, sAt, nAt *field.Path) {
	if v.full() {
		return
	}
	if s == nil {
		v.add(field.Required(sAt, "because it is defined in "+nAt.String()))
		return
	}
	v.completeNested(n, s, sAt, nAt)
}
