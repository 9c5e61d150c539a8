package definition_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// large returns a definition of about 30 KiB, similar to generated definitions: deeply nested, with long
// descriptions, some defaults and a few rules.
func large() *apiextensionsv1.CustomResourceDefinition {
	text := strings.Repeat("What the field is for, told at some length. ", 3)
	parts := map[string]jsonSchema{}
	for i := range 25 {
		members := map[string]jsonSchema{}
		for j := range 6 {
			members[fmt.Sprintf("value%d", j)] = jsonSchema{Type: "string", Description: text, MaxLength: ptr.To[int64](64)}
		}
		members["count"] = jsonSchema{Type: "integer", Format: "int32", Default: &apiextensionsv1.JSON{Raw: []byte("1")}}
		part := jsonSchema{Type: "object", Description: text, Properties: members}
		if i%5 == 0 {
			part.XValidations = apiextensionsv1.ValidationRules{{Rule: fmt.Sprintf("self.count < %d", i+1), Message: "too many"}}
		}
		parts[fmt.Sprintf("part%d", i)] = part
	}
	root := jsonSchema{Type: "object", Properties: map[string]jsonSchema{
		"spec":   {Type: "object", Description: text, Properties: parts},
		"status": {Type: "object", Description: text, XPreserveUnknownFields: ptr.To(true)},
	}}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.com"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}},
	}
	definition.Default(crd)
	definition.Prepare(crd)
	return crd
}

// BenchmarkValidate measures validation, which is most of the cost of creating a definition.
func BenchmarkValidate(b *testing.B) {
	crd := large()
	b.ReportAllocs()
	for b.Loop() {
		if errs := definition.Validate(b.Context(), crd); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

// BenchmarkWarnings measures the search for unvalidated formats in a large definition.
func BenchmarkWarnings(b *testing.B) {
	crd := large()
	b.ReportAllocs()
	for b.Loop() {
		if warnings := definition.Warnings(crd); len(warnings) > 0 {
			b.Fatal(warnings)
		}
	}
}
