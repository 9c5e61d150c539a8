package definition_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// definitionWith returns a definition with a schema in JSON.
func definitionWith(t *testing.T, schema string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := definitionOf("v1")
	if err := json.Unmarshal([]byte(schema), crd.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
		t.Fatal(err)
	}
	definition.Default(crd)
	definition.Prepare(crd)
	return crd
}

// nested returns inner with depth copies of before and after around it.
func nested(depth int, before, inner, after string) string {
	return strings.Repeat(before, depth) + inner + strings.Repeat(after, depth)
}

// TestDeepDefaults checks that the validation of nested defaults takes linear time. If it took quadratic time,
// the test would run for minutes.
func TestDeepDefaults(t *testing.T) {
	t.Parallel()
	members := make([]string, 30_000)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":{"type":"string"}`, i)
	}
	for name, last := range map[string]string{
		"without rules": `"last":{"type":"string"}`,
		"with a rule":   `"last":{"type":"string","x-kubernetes-validations":[{"rule":"true"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := `{"type":"object","properties":{` + strings.Join(members, ",") + `,` + last + `}}`
			crd := definitionWith(t, nested(2000, `{"type":"object","default":{},"properties":{"a":`, inner, `}}`))
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Default = nil
			if errs := definition.Validate(t.Context(), crd); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

// TestManyRequired checks that the validation of many required members and keys takes linear time.
func TestManyRequired(t *testing.T) {
	t.Parallel()
	var names, members []string
	for i := range 60_000 {
		name := fmt.Sprintf(`"k%06d"`, i)
		names, members = append(names, name), append(members, name+`:{"type":"string"}`)
	}
	item := `{"type":"object","required":[` + strings.Join(names, ",") + `],"properties":{` + strings.Join(members, ",") + `},"x-kubernetes-validations":[{"rule":"true"}]}`
	crd := definitionWith(t, `{"type":"object","properties":{"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[`+strings.Join(names, ",")+`],"items":`+item+`}}}`)
	if errs := definition.Validate(t.Context(), crd); len(errs) > 0 {
		t.Error(errs)
	}
}

// TestManyErrors checks that the number of errors is limited for schemas of a few hundred KB. Without a limit, the
// errors would occupy gigabytes, because each error contains a path.
func TestManyErrors(t *testing.T) {
	t.Parallel()
	const entries = 10_000
	each := func(format string) string {
		list := make([]string, entries)
		for i := range list {
			list[i] = strings.ReplaceAll(format, "NAME", fmt.Sprintf("k%d", i))
		}
		return strings.Join(list, ",")
	}
	deep := func(inner string) string {
		return nested(500, `{"type":"object","properties":{"a":`, inner, `}}`)
	}
	for name, schema := range map[string]string{
		"keys of a list":       `{"type":"object","properties":{"l":{"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":[` + each(`"NAME"`) + `]}}}`,
		"missing types":        deep(`{"type":"object","properties":{` + each(`"NAME":{}`) + `}}`),
		"alternatives":         `{"type":"object","allOf":[` + nested(500, `{"allOf":[`, `{"properties":{`+each(`"NAME":{}`)+`}}`, `]}`) + `]}`,
		"nested descriptions":  `{"type":"object","allOf":[` + nested(500, `{"allOf":[`, `{"allOf":[`+each(`{"title":"NAME"}`)+`]}`, `]}`) + `]}`,
		"unknown types":        deep(`{"type":"object","properties":{` + each(`"NAME":{"type":"x"}`) + `}}`),
		"rules without a text": deep(`{"type":"object","x-kubernetes-validations":[` + each(`{"rule":""}`) + `]}`),
		"invalid rules":        deep(`{"type":"object","x-kubernetes-validations":[` + each(`{"rule":"1"}`) + `]}`),
		"defaults":             deep(`{"type":"object","properties":{` + each(`"NAME":{"type":"string","default":1}`) + `}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := definitionWith(t, schema)
			errs := definition.Validate(t.Context(), crd)
			size := 0
			for _, err := range errs {
				size += len(err.Field)
			}
			if len(errs) == 0 || len(errs) > 1100 || size > 8<<20 {
				t.Errorf("%d errors with paths of %d bytes, want at most 1100 errors of 8 MB", len(errs), size)
			}
		})
	}
}
