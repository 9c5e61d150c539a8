package definition

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
)

// Warnings returns a warning for each format in the schemas that the server does not validate, sorted by
// format. The result is nil if there are no such formats.
func Warnings(crd *apiextensionsv1.CustomResourceDefinition) []string {
	unknown := formats{}
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil {
			unknown.collect(s.OpenAPIV3Schema)
		}
	}
	var warnings []string
	for _, format := range slices.Sorted(maps.Keys(unknown)) {
		warnings = append(warnings, fmt.Sprintf("unrecognized format %q", format))
	}
	return warnings
}

// formats is a set of unvalidated formats.
type formats map[string]bool

// collect adds the unvalidated formats of a schema. It skips keywords that valid schemas do not have,
// such as definitions or dependencies.
func (f formats) collect(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	if s.Format != "" && !schema.IsKnownFormat(s.Type, s.Format) {
		f[s.Format] = true
	}
	if s.Items != nil {
		f.collect(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		f.collect(s.AdditionalProperties.Schema)
	}
	f.collect(s.Not)
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			f.collect(&list[i])
		}
	}
	if len(s.Properties) == 0 {
		return
	}
	member := new(apiextensionsv1.JSONSchemaProps) // reused, because a copy is large
	for name := range s.Properties {
		*member = s.Properties[name]
		f.collect(member)
	}
}
