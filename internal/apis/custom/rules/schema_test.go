package rules

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// schemaOf parses a schema in YAML.
func schemaOf(t testing.TB, text string) *apiextensions.JSONSchemaProps {
	t.Helper()
	var v1 apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(text), &v1); err != nil {
		t.Fatalf("parse the schema %s: %v", text, err)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &props, nil); err != nil {
		t.Fatal(err)
	}
	return &props
}

// valueOf parses a value in YAML, with the Go types of decoded documents.
func valueOf(t testing.TB, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	encoded, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("parse the value %s: %v", text, err)
	}
	var value any
	if err := utiljson.Unmarshal(encoded, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// withRule replaces the rules at the root of a schema with one rule, in place, and returns the schema.
func withRule(props *apiextensions.JSONSchemaProps, rule string) *apiextensions.JSONSchemaProps {
	props.XValidations = apiextensions.ValidationRules{{Rule: rule}}
	return props
}
