package definition

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/apis/custom/schema"
)

func hasDefault(s *props) bool { return s.Default != nil }

// anySchema reports whether the predicate is true for any schema of the definition.
func (v *validator) anySchema(is func(*props) bool) bool {
	found := false
	look := func(s *apiextensions.CustomResourceValidation) {
		if s != nil {
			schema.Walk(s.OpenAPIV3Schema, func(s *props) { found = found || is(s) })
		}
	}
	look(v.crd.Spec.Validation)
	for _, version := range v.crd.Spec.Versions {
		look(version.Schema)
	}
	return found
}

// schema validates the schema of a version, or the common schema of all versions. status is set if a version
// with this schema has the status subresource.
func (v *validator) schema(validation *apiextensions.CustomResourceValidation, version string, status bool, at *field.Path) {
	if validation == nil || validation.OpenAPIV3Schema == nil {
		return
	}
	before := len(v.errs)
	root := validation.OpenAPIV3Schema
	if status {
		v.rootFields(root, at)
	}
	if root.Nullable {
		v.add(field.Forbidden(at.Child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"))
	}
	schemaAt := at.Child("openAPIV3Schema")
	checker := &rules.Checker{Unchanged: func() bool { return v.isUnchanged(version) }}
	start := place{root: true, defaults: true}
	if faults := structuralFaults(root, schemaAt); len(faults) > 0 {
		v.add(faults...)
	} else if faults := defaultFaults(v.ctx, root, schemaAt); len(faults) > 0 {
		v.add(faults...)
	} else {
		start.node = checker.Root(root, schemaAt)
	}
	w := schemaValidator{ctx: v.ctx}
	w.node(root, schemaAt, start)
	v.add(w.errs...)
	if !w.unsupported {
		v.add(w.ruleErrs...)
		v.add(checker.Total(schemaAt)...)
	}
	if len(v.errs) == before && hasDollarSchema(root) {
		v.add(field.Invalid(schemaAt, "", "OpenAPIV3Schema 'schema' is not supported"))
	}
}

// isUnchanged reports whether the schema of a version is the same as in the old definition.
func (v *validator) isUnchanged(version string) bool {
	if v.old == nil {
		return false
	}
	old, err := Internal(v.old)
	if err != nil {
		return false
	}
	now, err := apiextensions.GetSchemaForVersion(v.crd, version)
	if err != nil {
		return false
	}
	before, err := apiextensions.GetSchemaForVersion(old, version)
	return err == nil && equality.Semantic.DeepEqual(now, before)
}

func hasDollarSchema(root *props) bool {
	found := false
	schema.Walk(root, func(s *props) { found = found || s.Schema != "" })
	return found
}

// rootFields validates the root of a schema with a status subresource. Only keywords that can be
// validated for the status in isolation are allowed.
func (v *validator) rootFields(root *props, at *field.Path) {
	allowed := []string{"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"}
	value := reflect.ValueOf(root).Elem()
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			continue
		}
		name := value.Type().Field(i).Name
		if name == "Type" && root.Type != "object" {
			v.add(field.Invalid(at.Child("openAPIV3Schema.type"), root.Type, `only "object" is allowed as the type at the root of the schema if the status subresource is enabled`))
			return
		}
		if !slices.Contains(allowed, name) {
			v.add(field.Invalid(at.Child("openAPIV3Schema"), *root, fmt.Sprintf("only %v fields are allowed at the root of the schema if the status subresource is enabled", allowed)))
			return
		}
	}
}

// schemaValidator collects the errors of unsupported keywords and of extensions.
type schemaValidator struct {
	ctx  context.Context
	errs field.ErrorList
	// ruleErrs contains the CEL errors of rules. They are dropped if a keyword is unsupported, because the CEL
	// types of such a schema are meaningless.
	ruleErrs    field.ErrorList
	unsupported bool
}

// place is the context of a node in a schema.
type place struct {
	root bool
	// defaults is set if a default is allowed; otherwise reason is the reason for the error.
	defaults bool
	reason   string
	// inMeta is set for nodes in the metadata, apiVersion or kind of a resource.
	inMeta bool
	// node checks the rules of the schema node. It is zero if these rules are not checked.
	node rules.SchemaNode
}

// inner returns the context of a child node whose rules are not checked.
func (p place) inner() place { return p.at(rules.SchemaNode{}) }

// at returns the context of a child node. node checks the rules of the child.
func (p place) at(node rules.SchemaNode) place {
	p.root, p.node = false, node
	return p
}

func (w *schemaValidator) add(err *field.Error) { w.errs = append(w.errs, err) }

// full reports whether there are maxErrors errors.
func (w *schemaValidator) full() bool { return len(w.errs) >= maxErrors }

func (w *schemaValidator) node(s *props, at *field.Path, p place) {
	if s == nil || w.full() {
		return
	}
	before := len(w.errs)
	w.supported(s, at, p)
	if s.UniqueItems {
		w.add(field.Forbidden(at.Child("uniqueItems"), "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	w.members(s, at, p)
	inner := p.inner()
	w.node(s.Not, at.Child("not"), inner)
	for _, list := range []struct {
		name  string
		nodes []props
	}{{"allOf", s.AllOf}, {"oneOf", s.OneOf}, {"anyOf", s.AnyOf}} {
		for i := range list.nodes {
			w.node(&list.nodes[i], at.Child(list.name).Index(i), inner)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Definitions)) {
		definition := s.Definitions[name]
		w.node(&definition, at.Child("definitions").Key(name), inner)
	}
	if s.Items != nil {
		itemsAt := at.Child("items")
		w.node(s.Items.Schema, itemsAt, p.at(p.node.Elements(s.Items.Schema, itemsAt)))
		for i := range s.Items.JSONSchemas {
			w.node(&s.Items.JSONSchemas[i], at.Child("items").Index(i), inner)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		w.node(s.Dependencies[name].Schema, at.Child("dependencies").Key(name), inner)
	}
	if s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields {
		w.add(field.Invalid(at.Child("x-kubernetes-preserve-unknown-fields"), false, "must be true or undefined"))
	}
	w.mapType(s, at)
	w.listType(s, at)
	w.rules(s, at)
	// CEL errors of an invalid schema would be misleading.
	if len(w.errs) == before && len(w.ruleErrs) < maxErrors {
		w.ruleErrs = append(w.ruleErrs, p.node.Check(w.ctx)...)
	}
}

// supported rejects unsupported keywords.
func (w *schemaValidator) supported(s *props, at *field.Path, p place) {
	types := []string{"array", "boolean", "integer", "number", "object", "string"}
	if s.Type != "" && !slices.Contains(types, s.Type) {
		w.add(field.NotSupported(at.Child("type"), s.Type, types))
	}
	if s.Default != nil && !p.defaults {
		w.add(field.Forbidden(at.Child("default"), "must not be set "+p.reason))
	}
	for _, f := range []struct {
		said bool
		name string
	}{
		{s.ID != "", "id"}, {s.AdditionalItems != nil, "additionalItems"}, {len(s.PatternProperties) > 0, "patternProperties"},
		{len(s.Definitions) > 0, "definitions"}, {s.Dependencies != nil, "dependencies"}, {s.Ref != nil, "$ref"},
	} {
		if f.said {
			w.unsupported = true
			w.add(field.Forbidden(at.Child(f.name), f.name+" is not supported"))
		}
	}
	if s.Type == "null" {
		w.add(field.Forbidden(at.Child("type"), "type cannot be set to null, use nullable as an alternative"))
	}
	if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
		w.add(field.Forbidden(at.Child("items"), "items must be a schema object and not an array"))
	}
	if p.inMeta && s.XEmbeddedResource {
		w.add(field.Forbidden(at.Child("x-kubernetes-embedded-resource"), "must not be used inside of resource meta"))
	}
}

func (w *schemaValidator) members(s *props, at *field.Path, p place) {
	if additional := s.AdditionalProperties; additional != nil {
		if len(s.Properties) > 0 && (!additional.Allows || additional.Schema != nil) {
			w.add(field.Forbidden(at.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive"))
		}
		innerAt := at.Child("additionalProperties")
		inner := p.at(p.node.AdditionalProperties(additional.Schema, innerAt))
		if p.inMeta {
			inner.defaults, inner.reason = false, "inside additionalProperties applying to object metadata"
		}
		w.node(additional.Schema, innerAt, inner)
	}
	propertiesAt := at.Child("properties")
	for name, member := range schema.Members(s) {
		memberAt := propertiesAt.Key(name)
		inner := p.at(p.node.Member(name, member, memberAt))
		if (p.root || s.XEmbeddedResource) && (name == "metadata" || name == "kind" || name == "apiVersion") {
			inner.inMeta = true
			if p.root {
				inner.defaults, inner.reason = false, "in top-level "+name
			}
		}
		w.node(member, memberAt, inner)
	}
}

func (w *schemaValidator) mapType(s *props, at *field.Path) {
	if s.XMapType == nil {
		return
	}
	w.requireType(s, "object", "x-kubernetes-map-type", at)
	if t := *s.XMapType; t != "atomic" && t != "granular" {
		w.add(field.NotSupported(at.Child("x-kubernetes-map-type"), t, []string{"atomic", "granular"}))
	}
}

// requireType adds an error if a schema does not have the type that an extension requires. It reports whether
// the schema has the type.
func (w *schemaValidator) requireType(s *props, want, extension string, at *field.Path) bool {
	detail := fmt.Sprintf("must be %s if %s is specified", want, extension)
	switch s.Type {
	case want:
		return true
	case "":
		w.add(field.Required(at.Child("type"), detail))
	default:
		w.add(field.Invalid(at.Child("type"), s.Type, detail))
	}
	return false
}

func (w *schemaValidator) listType(s *props, at *field.Path) {
	listType := ""
	if s.XListType != nil {
		listType = *s.XListType
		if w.requireType(s, "array", "x-kubernetes-list-type", at) && listType == "set" {
			w.setItems(itemsOf(s), at.Child("items"))
		}
		if listType != "atomic" && listType != "set" && listType != "map" {
			w.add(field.NotSupported(at.Child("x-kubernetes-list-type"), listType, []string{"atomic", "set", "map"}))
		}
	}
	if len(s.XListMapKeys) > 0 && listType != "map" {
		const detail = "must be map if x-kubernetes-list-map-keys is non-empty"
		if s.XListType == nil {
			w.add(field.Required(at.Child("x-kubernetes-list-type"), detail))
		} else {
			w.add(field.Invalid(at.Child("x-kubernetes-list-type"), listType, detail))
		}
	}
	if listType == "map" {
		w.mapItems(s, at)
	}
	if items := itemsOf(s); items != nil && items.Nullable && (listType == "map" || listType == "set") {
		w.add(field.Forbidden(at.Child("items").Child("nullable"), "cannot be nullable when x-kubernetes-list-type is "+listType))
	}
	if listType == "map" {
		w.keyDefaults(s, at)
	}
}

// setItems requires that the elements of a set are atomic.
func (w *schemaValidator) setItems(items *props, at *field.Path) {
	if items == nil {
		return
	}
	const detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
	switch {
	case items.Type == "array" && items.XListType != nil && *items.XListType != "atomic":
		w.add(field.Invalid(at.Child("x-kubernetes-list-type"), items.XListType, detail))
	case items.Type == "object" && (items.XMapType == nil || *items.XMapType != "atomic"):
		w.add(field.Invalid(at.Child("x-kubernetes-map-type"), items.XListType, detail))
	}
}

// mapItems validates the element schema and the keys of a list map.
func (w *schemaValidator) mapItems(s *props, at *field.Path) {
	keysAt := at.Child("x-kubernetes-list-map-keys")
	if len(s.XListMapKeys) == 0 {
		w.add(field.Required(keysAt, "must not be empty if x-kubernetes-list-type is map"))
	}
	items := itemsOf(s)
	switch {
	case s.Items == nil:
		w.add(field.Required(at.Child("items"), "must have a schema if x-kubernetes-list-type is map"))
		return
	case items == nil:
		w.add(field.Invalid(at.Child("items"), s.Items, "must only have a single schema if x-kubernetes-list-type is map"))
		return
	case items.Type != "object":
		w.add(field.Invalid(at.Child("items").Child("type"), items.Type, "must be object if parent array's x-kubernetes-list-type is map"))
		return
	}
	seen := map[string]bool{}
	for _, key := range s.XListMapKeys {
		if w.full() {
			return
		}
		if member, found := items.Properties[key]; !found {
			w.add(field.Invalid(keysAt, s.XListMapKeys, "entries must all be names of item properties"))
		} else if member.Type == "array" || member.Type == "object" {
			w.add(field.Invalid(at.Child("items").Child("properties").Key(key).Child("type"), items.Type, "must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if seen[key] {
			w.add(field.Invalid(keysAt, s.XListMapKeys, "must not contain duplicate entries"))
		}
		seen[key] = true
	}
}

// keyDefaults requires that the keys of a list map are required properties or have a default, and that they are
// not nullable.
func (w *schemaValidator) keyDefaults(s *props, at *field.Path) {
	items := itemsOf(s)
	if items == nil {
		return
	}
	required := sets.New(items.Required...)
	for _, key := range s.XListMapKeys {
		member, found := items.Properties[key]
		if !found || w.full() {
			continue
		}
		at := at.Child("items").Child("properties").Key(key)
		if !required.Has(key) && member.Default == nil {
			w.add(field.Required(at.Child("default"), "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if member.Nullable {
			w.add(field.Forbidden(at.Child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
}

// rules validates the fields of rules. It does not compile their CEL expressions.
func (w *schemaValidator) rules(s *props, at *field.Path) {
	for i := range s.XValidations {
		if w.full() {
			return
		}
		rule, at := &s.XValidations[i], at.Child("x-kubernetes-validations").Index(i)
		w.ruleText(rule, at)
		if rule.FieldPath != "" {
			if _, _, err := rules.FieldAt(s, rule.FieldPath, true); err != nil {
				w.add(field.Invalid(at.Child("fieldPath"), rule.FieldPath, "must be a valid path"))
			}
		}
	}
}

func (w *schemaValidator) ruleText(rule *apiextensions.ValidationRule, at *field.Path) {
	text, message := strings.TrimSpace(rule.Rule), strings.TrimSpace(rule.Message)
	switch {
	case text == "":
		w.add(field.Required(at.Child("rule"), "rule is not specified"))
	case rule.Message != "" && message == "":
		w.add(field.Invalid(at.Child("message"), rule.Message, "must be non-empty if specified"))
	case strings.ContainsAny(message, "\r\n"):
		w.add(field.Invalid(at.Child("message"), rule.Message, "must not contain line breaks"))
	case strings.ContainsAny(text, "\r\n") && message == "":
		w.add(field.Required(at.Child("message"), "message must be specified if rule contains line breaks"))
	}
	if rule.MessageExpression != "" && strings.TrimSpace(rule.MessageExpression) == "" {
		w.add(field.Required(at.Child("messageExpression"), "must be non-empty if specified"))
	}
	reasons := []string{"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"}
	if rule.Reason != nil && !slices.Contains(reasons, string(*rule.Reason)) {
		w.add(field.NotSupported(at.Child("reason"), *rule.Reason, toReasons(reasons)))
	}
	if rule.FieldPath != "" && strings.TrimSpace(rule.FieldPath) == "" {
		w.add(field.Invalid(at.Child("fieldPath"), rule.FieldPath, "must be non-empty if specified"))
	}
	if strings.ContainsAny(rule.FieldPath, "\r\n") {
		w.add(field.Invalid(at.Child("fieldPath"), rule.FieldPath, "must not contain line breaks"))
	}
}

func toReasons(words []string) []apiextensions.FieldValueErrorReason {
	reasons := make([]apiextensions.FieldValueErrorReason, len(words))
	for i, word := range words {
		reasons[i] = apiextensions.FieldValueErrorReason(word)
	}
	return reasons
}
