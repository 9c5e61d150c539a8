package definition_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/apis/custom/schema"
)

// withSchema returns a definition with one version and a schema in YAML. The definition is valid if the schema
// is valid.
func withSchema(t testing.TB, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := definitionOf("v1")
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(text), crd.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
		t.Fatalf("parse the schema %s: %v", text, err)
	}
	definition.Default(crd)
	definition.Prepare(crd)
	return crd
}

const schemaPath = "spec.validation.openAPIV3Schema"

func TestRulesOfSchemas(t *testing.T) {
	t.Parallel()
	const tooMuch = " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
	const total = schemaPath + ": Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of "
	contributed := func(path string) string {
		return path + ": Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
	}
	// Two nested loops over n elements cost about 5*n*n.
	list := func(n int, rule string) string {
		return fmt.Sprintf(`{type: array, maxItems: %d, items: {type: integer}, x-kubernetes-validations: [{rule: "%s"}]}`, n, rule)
	}
	const square = "self.all(x, self.all(y, x == y))"
	for _, test := range []struct {
		name, schema string
		want         []string
	}{
		{"valid rules", `
type: object
properties:
  a: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf"}]}
  m: {type: array, maxItems: 9, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string, maxLength: 9, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}}}
  f: {type: object, maxProperties: 9, additionalProperties: {type: string, maxLength: 9, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}`, nil},
		{"slightly too expensive", `{type: object, properties: {l: ` + list(1500, square) + `}}`, []string{
			schemaPath + ".properties[l].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 1.125750x" + tooMuch}},
		{"too expensive by a factor of 2", `{type: object, properties: {l: ` + list(2000, square) + `}}`, []string{
			schemaPath + ".properties[l].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 2.0x" + tooMuch}},
		{"too expensive in total", `{type: object, properties: {` +
			strings.Join([]string{"a: " + list(1400, square), "b: " + list(1400, square), "c: " + list(1400, square), "d: " + list(1400, square), "e: " + list(1400, square), "f: " + list(1400, square)}, ", ") +
			`, g: {type: array, maxItems: 5, items: ` + list(1400, square) + `}}}`, []string{
			schemaPath + ".properties[g].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of 4.9x" + tooMuch,
			contributed(schemaPath + ".properties[g].items.x-kubernetes-validations[0].rule"), contributed(schemaPath + ".properties[a].x-kubernetes-validations[0].rule"),
			contributed(schemaPath + ".properties[b].x-kubernetes-validations[0].rule"), contributed(schemaPath + ".properties[c].x-kubernetes-validations[0].rule"),
			total + "1.078770x" + tooMuch}},
		{"oldSelf where it is not available", `
type: object
properties:
  a: {type: array, maxItems: 3, items: {type: object, properties: {b: {type: integer, x-kubernetes-validations: [{rule: "self == oldSelf"}, {rule: "self == oldSelf.orValue(1)", optionalOldSelf: true}]}}}}
  s: {type: array, maxItems: 3, x-kubernetes-list-type: set, items: {type: integer, x-kubernetes-validations: [{rule: "self == oldSelf"}]}}`, []string{
			schemaPath + `.properties[a].items.properties[b].x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within ` + schemaPath + `.properties[a]`,
			schemaPath + `.properties[a].items.properties[b].x-kubernetes-validations[1].rule: Invalid value: "self == oldSelf.orValue(1)": oldSelf cannot be used on the uncorrelatable portion of the schema within ` + schemaPath + `.properties[a]`,
			schemaPath + `.properties[s].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within ` + schemaPath + `.properties[s]`}},
		{"fields that expressions cannot access", `
type: object
properties:
  a: {x-kubernetes-preserve-unknown-fields: true, properties: {b: {type: string}}, x-kubernetes-validations: [{rule: "true"}]}
  l: {type: array, items: {x-kubernetes-preserve-unknown-fields: true}}
  u: {type: string}
x-kubernetes-validations: [{rule: "has(self.l)"}]`, []string{
			schemaPath + `.properties[a].x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations`,
			schemaPath + `.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"has(self.l)","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:4: undefined field 'l'` + "\n | has(self.l)\n | ...^"}},
		{"programs that cannot be created", `{type: object, x-kubernetes-validations: [{rule: "int('x') == 1"}, {rule: "self.kind.find('[') == ''"}]}`, []string{
			schemaPath + `.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"int('x') == 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: program instantiation failed: type conversion error from 'string' to 'int'`,
			schemaPath + `.x-kubernetes-validations[1].rule: Invalid value: {"Rule":"self.kind.find('[') == ''","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: program instantiation failed: error parsing regexp: missing closing ]: ` + "`[`"}},
		{"texts of rules", `
type: object
properties: {m: {type: object, additionalProperties: {type: string}}}
x-kubernetes-validations:
- {rule: "true", messageExpression: " "}
- {rule: "true\n"}
- {rule: "true\n&& true"}
- {rule: "true", fieldPath: " "}
- {rule: "true", fieldPath: ".m['a.b']"}
- {rule: "true", fieldPath: ".m['a"}`, []string{
			schemaPath + `.x-kubernetes-validations[0].messageExpression: Required value: must be non-empty if specified`,
			schemaPath + `.x-kubernetes-validations[2].message: Required value: message must be specified if rule contains line breaks`,
			schemaPath + `.x-kubernetes-validations[3].fieldPath: Invalid value: " ": must be non-empty if specified`,
			schemaPath + `.x-kubernetes-validations[3].fieldPath: Invalid value: " ": must be a valid path`,
			schemaPath + `.x-kubernetes-validations[5].fieldPath: Invalid value: ".m['a": must be a valid path`}},
		{"a default that violates a rule", `
type: object
properties:
  a: {type: integer, default: 5, x-kubernetes-validations: [{rule: "self < 5"}]}
  b: {type: object, default: {c: 1}, properties: {c: {type: integer, x-kubernetes-validations: [{rule: "self > 1", message: more}]}}}
  d: {type: integer, default: 5, x-kubernetes-validations: [{rule: "oldSelf.hasValue()", optionalOldSelf: true}]}
  e: {type: integer, default: 5, x-kubernetes-validations: [{rule: "self > oldSelf", message: grows}]}`, []string{
			schemaPath + `.properties[a].default: Invalid value: 5: failed rule: self < 5`, schemaPath + `.properties[b].default.c: Invalid value: 1: more`,
			schemaPath + `.properties[d].default: Invalid value: 5: failed rule: oldSelf.hasValue()`, schemaPath + `.properties[e].default: Invalid value: 5: grows`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			crd := withSchema(t, test.schema)
			var got []string
			for _, err := range definition.Validate(t.Context(), crd) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestForbiddenWithRules checks that only the errors of unsupported keywords are returned,
// regardless of the rules.
func TestForbiddenWithRules(t *testing.T) {
	t.Parallel()
	for name, construct := range map[string]string{
		"id": `id: x`, "$ref": `$ref: "#/x"`, "additionalItems": `additionalItems: true`, "definitions": `definitions: {x: {type: string}}`,
		"dependencies": `dependencies: {x: [a]}`, "patternProperties": `patternProperties: {x: {type: string}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := withSchema(t, `
type: object
x-kubernetes-validations: [{rule: "self.nothing"}, {rule: "true"}]
properties: {a: {type: string, `+construct+`, x-kubernetes-validations: [{rule: "self"}]}, b: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self.matches('(a+)+')"}]}}}`)
			errs := definition.Validate(t.Context(), crd)
			if len(errs) != 1 || errs[0].Detail != name+" is not supported" {
				t.Error(errs)
			}
		})
	}
}

// TestUnchangedRules checks that the costs of unchanged rules in a stored schema are not validated
// again, because limits may have changed.
func TestUnchangedRules(t *testing.T) {
	t.Parallel()
	const expensive = `{type: object, properties: {l: {type: array, maxItems: %d, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(x, self.all(y, x == y))"}]}}}`
	old := withSchema(t, fmt.Sprintf(expensive, 2000))
	old.ResourceVersion = "1"
	for _, test := range []struct {
		name   string
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   int
	}{
		{"nothing changed", func(*apiextensionsv1.CustomResourceDefinition) {}, 0},
		{"names changed", func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.ShortNames = []string{"th"} }, 0},
		{"schema changed", func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "new"
		}, 1},
		{"version added", func(crd *apiextensionsv1.CustomResourceDefinition) {
			more := *crd.Spec.Versions[0].DeepCopy()
			more.Name, more.Storage = "v2", false
			more.Schema.OpenAPIV3Schema.Description = "new"
			crd.Spec.Versions = append(crd.Spec.Versions, more)
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			crd := old.DeepCopy()
			test.change(crd)
			if errs := definition.ValidateUpdate(t.Context(), crd, old); len(errs) != test.want {
				t.Error(errs)
			}
		})
	}
}

// TestPathological checks that validating a definition takes bounded time for all rules and returns
// a clear error.
func TestPathological(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, rule, message, want string }{
		{"nested loops", strings.Repeat("self.all(x, ", 11) + "true" + strings.Repeat(")", 11), "", "estimated rule cost exceeds budget by factor of more than 100x"},
		{"loops nested too deeply", strings.Repeat("self.all(x, ", 300) + "true" + strings.Repeat(")", 300), "", "compilation failed"},
		{"brackets", strings.Repeat("(", 5000) + "true" + strings.Repeat(")", 5000), "", "compilation failed"},
		{"a long expression", strings.Repeat("true && ", 20000) + "true", "", "compilation failed"},
		{"a huge regular expression", "self[0].matches('" + strings.Repeat("(a{1,99}){1,9}", 50) + "')", "", "exceeds budget"},
		{"a long regular expression", "self[0].matches('" + strings.Repeat("[a-z]*", 3000) + "')", "", "exceeds budget"},
		{"a huge message", "true", strings.Repeat("self.map(a, ", 5) + "self.join()" + strings.Repeat(")", 5) + ".size() > 0 ? '' : ''", "estimated messageExpression cost exceeds budget"},
		{"a long message", "true", "'" + strings.Repeat("x", 200000) + "'", "messageExpression compilation failed"},
		{"lists of lists", strings.Repeat("[", 300) + strings.Repeat("]", 300) + " == []", "", "compilation failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			crd := withSchema(t, `{type: object, properties: {l: {type: array, items: {type: string}}}}`)
			l := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["l"]
			l.XValidations = apiextensionsv1.ValidationRules{{Rule: test.rule, MessageExpression: test.message}}
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["l"] = l
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			errs := definition.Validate(ctx, crd).ToAggregate()
			if errs == nil || !strings.Contains(errs.Error(), test.want) {
				t.Errorf("%.2000v, want %q", errs, test.want)
			}
		})
	}
}

// TestCheckEnds checks that the compilation of rules stops when the context ends.
func TestCheckEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	crd := withSchema(t, `{type: object, x-kubernetes-validations: [{rule: "true"}, {rule: "false"}]}`)
	errs := definition.Validate(ctx, crd)
	if len(errs) != 1 || errs[0].Error() != schemaPath+".x-kubernetes-validations[0]: Internal error: compile rules: context canceled" {
		t.Error(errs)
	}
}

// FuzzRules checks that the rules of an accepted definition can be evaluated for valid objects without panics,
// internal errors and compile errors.
func FuzzRules(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}}}`, "self.a == 'x' || self.a.matches('[a-z]+')", `{"a": "b"}`},
		{`{"type": "object", "properties": {"l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}}}}`, "self.l.map(x, x * 2).filter(x, x > 2) + self.l == self.l.sort()", `{"l": [1, 2.0, 3]}`},
		{`{"type": "object", "properties": {"l": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"x-kubernetes-int-or-string": true}}}}}}`,
			"self.l + oldSelf.l == self.l && self.l[0].v + 1 > 2", `{"l": [{"k": "a", "v": 1}, {"k": "b", "v": "2"}]}`},
		{`{"type": "object", "properties": {"s": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": {"type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 3, "items": {"type": "number"}}}, "m": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string", "nullable": true, "format": "date-time"}}}}`,
			"self.s == oldSelf.s && self.m.all(k, self.m[k] == oldSelf.m[k]) && dyn(self.s) in [dyn(self.s)]", `{"s": [[1], [2.5]], "m": {"a": null, "b": "2001-02-03T04:05:06Z"}}`},
		{`{"type": "object", "properties": {"e": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}, "u": {"x-kubernetes-preserve-unknown-fields": true}}}`,
			"self.e == oldSelf.e && self == oldSelf && self.e.metadata.name != ''", `{"e": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "q": [1]}, "u": {"x": [1, "y"]}}`},
	} {
		f.Add([]byte(seed[0]), seed[1], []byte(seed[2]), []byte(seed[2]))
	}
	f.Fuzz(func(t *testing.T, schemaJSON []byte, rule string, object, old []byte) {
		if len(schemaJSON)+len(rule)+len(object)+len(old) > 4096 {
			return
		}
		var props apiextensionsv1.JSONSchemaProps
		var doc, was map[string]any
		if json.Unmarshal(schemaJSON, &props) != nil || utiljson.Unmarshal(object, &doc) != nil || utiljson.Unmarshal(old, &was) != nil {
			return
		}
		props.XValidations = append(props.XValidations, apiextensionsv1.ValidationRule{Rule: rule, Message: "m"})
		crd := definitionOf("v1")
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &props
		definition.Default(crd)
		definition.Prepare(crd)
		if len(definition.Validate(t.Context(), crd)) > 0 {
			return
		}
		internal, err := definition.InternalSchema(&props)
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := schema.Compile(internal)
		if err != nil {
			t.Fatal(err)
		}
		compiled.Complete(doc)
		compiled.Complete(was)
		if len(compiled.Validate(t.Context(), nil, doc)) > 0 || len(compiled.Validate(t.Context(), nil, was)) > 0 {
			return
		}
		for _, o := range []rules.Options{{Budget: rules.Budget}, {Budget: rules.Budget, Old: was, Ratchet: true}} {
			errs, _ := rules.New(internal, true).Validate(t.Context(), nil, doc, o)
			for _, err := range errs {
				if strings.Contains(err.Detail, "internal error") || strings.Contains(err.Detail, "compile error") {
					t.Errorf("%s on %s: %v", rule, object, err)
				}
			}
		}
	})
}
