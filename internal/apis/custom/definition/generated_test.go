package definition_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/apis/custom/rules"
)

type jsonSchema = apiextensionsv1.JSONSchemaProps

// generator creates random schemas, values and rules.
type generator struct{ *rand.Rand }

func (g generator) one(words ...string) string { return words[g.IntN(len(words))] }

func (g generator) schema(depth int) jsonSchema {
	s := jsonSchema{Nullable: g.IntN(4) == 0}
	kinds := 9
	if depth > 0 {
		kinds = 15
	}
	switch k := g.IntN(kinds); k {
	case 0, 1, 2, 3, 4:
		s.Type, s.Format = "string", [...]string{"", "date", "date-time", "duration", "byte"}[k]
		if k == 0 {
			s.MaxLength = ptr.To[int64](9)
		}
	case 5:
		s.Type = "integer"
	case 6:
		s.Type = "number"
	case 7:
		s.Type = "boolean"
	case 8:
		s.XIntOrString = true
	case 9, 10:
		return g.list(depth)
	case 11:
		inner := g.schema(depth - 1)
		s.Type, s.MaxProperties, s.AdditionalProperties = "object", ptr.To[int64](4), &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &inner}
	default:
		return g.object(depth)
	}
	return s
}

func (g generator) list(depth int) jsonSchema {
	items := g.schema(depth - 1)
	s := jsonSchema{Type: "array", MaxItems: ptr.To[int64](4), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
	switch {
	case items.Type != "object" && items.Type != "array" && g.IntN(2) == 0:
		s.XListType, items.Nullable = ptr.To("set"), false
	case items.Type == "object" && len(items.Properties) > 0 && g.IntN(2) == 0:
		items.Properties["k"] = jsonSchema{Type: "string", MaxLength: ptr.To[int64](3)}
		items.Required, items.Nullable = append(items.Required, "k"), false
		s.XListType, s.XListMapKeys = ptr.To("map"), []string{"k"}
	}
	return s
}

func (g generator) object(depth int) jsonSchema {
	s := jsonSchema{Type: "object", Properties: map[string]jsonSchema{}}
	for _, name := range []string{"a", "b-c", "in", "x__y"}[:1+g.IntN(4)] {
		s.Properties[name] = g.schema(depth - 1)
	}
	if g.IntN(5) == 0 {
		s.XPreserveUnknownFields = ptr.To(true)
	}
	return s
}

// value returns a random value for a schema.
func (g generator) value(s *jsonSchema) any {
	if s.Nullable && g.IntN(5) == 0 {
		return nil
	}
	switch s.Type {
	case "string":
		return g.text(s.Format)
	case "integer":
		return g.Int64N(5)
	case "number":
		return [...]any{int64(1), 1.0, 2.5}[g.IntN(3)]
	case "boolean":
		return g.IntN(2) == 0
	case "array":
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(s.Items.Schema))
		}
		return list
	case "object":
		members := map[string]any{}
		for name := range s.Properties {
			member := s.Properties[name]
			if g.IntN(4) > 0 {
				members[name] = g.value(&member)
			}
		}
		if s.AdditionalProperties != nil {
			for range g.IntN(4) {
				members[g.one("a", "b", "c d", "9")] = g.value(s.AdditionalProperties.Schema)
			}
		}
		if s.XPreserveUnknownFields != nil {
			members["unknown"] = []any{g.Int64N(2), map[string]any{"z": nil}}
		}
		return members
	}
	return [...]any{int64(3), "5%"}[g.IntN(2)]
}

func (g generator) text(format string) string {
	switch format {
	case "date":
		return g.one("2001-02-03", "2020-12-31")
	case "date-time":
		return g.one("2001-02-03T04:05:06Z", "2001-02-03T05:05:06+01:00")
	case "duration":
		return g.one("1h", "60m")
	case "byte":
		return base64.StdEncoding.EncodeToString([]byte(g.one("", "AB")))
	}
	return g.one("", "a", "b", "👑")
}

// rule returns a random expression with one or two fields of a value.
func (g generator) rule() string {
	p, q := g.place(), g.place()
	template := g.one("P == P", "P == old(P)", "P != Q", "!has(P.a) || P.a == P.a", "P + P == P", "size(P) < 4 && P.all(x, x == x)", "P.all(x, P.exists(y, x == y))",
		"P.map(x, x) == P", "P in [P, Q]", "string(P) == 'a'", "type(P) == type(Q)", "dyn(P) == dyn(Q)", "{'a': P} == {'a': Q}", "[P] + [Q] == [Q]", "P.?a.hasValue() || P.?a == optional.none()",
		"P.filter(x, x in P).size() == size(P)", "P.all(k, P[k] == P[k])", "P[0] == P[size(P) - 1]", "P['a'] == Q", "P > Q", "old(P).all(x, x in P)", "sets.equivalent(P, Q)", "P.exists_one(x, x == Q)",
		"P.transformList(i, v, v) == P", "P.isSorted()", "dyn(P).a == 1", "dyn(P)[0] == dyn(Q).b", "duration(dyn(P)) > P", "P.size() == old(P).size()")
	text := strings.NewReplacer("old(P)", "old"+strings.ToUpper(p[:1])+p[1:], "P", p, "Q", q).Replace(template)
	return text
}

func (g generator) place() string {
	return "self" + g.one("", ".a", ".b__dash__c", ".__in__", ".x__underscores__y", ".a.a", ".a[0]", ".a['a']", ".a[0].k", ".a[0].a", ".b__dash__c.a")
}

// checkGenerated validates random objects with random rules. It checks that there are no panics and internal
// errors, and that each value is equal to itself.
func checkGenerated(t *testing.T, seed uint64) {
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	props := g.object(3)
	props.XPreserveUnknownFields = nil
	for range 6 {
		props.XValidations = append(props.XValidations, apiextensionsv1.ValidationRule{Rule: g.rule(), Message: "m"})
	}
	for range 3 {
		place := g.place()
		props.XValidations = append(props.XValidations, apiextensionsv1.ValidationRule{Rule: place + " == " + place, Message: never})
	}
	keepValid(t, &props)
	internal, err := definition.InternalSchema(&props)
	if err != nil {
		t.Fatal(err)
	}
	r := rules.New(internal, true)
	for range 4 {
		doc, old := g.value(&props), g.value(&props)
		for _, o := range []rules.Options{{Budget: rules.Budget}, {Budget: rules.Budget, Old: old, Ratchet: true}, {Budget: rules.Budget, Old: doc}} {
			errs, _ := r.Validate(t.Context(), nil, doc, o)
			for _, err := range errs {
				if err.Detail == never || strings.Contains(err.Detail, "internal error") || strings.Contains(err.Detail, "compile error") {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		}
	}
}

// never is the message of rules that are always satisfied.
const never = "a value is not equal to itself"

// keepValid removes the rules that make a definition invalid.
func keepValid(t *testing.T, props *jsonSchema) {
	var kept apiextensionsv1.ValidationRules
	for _, rule := range props.XValidations {
		crd := definitionOf("v1")
		props.XValidations = apiextensionsv1.ValidationRules{rule}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = props
		definition.Default(crd)
		definition.Prepare(crd)
		errs := definition.Validate(t.Context(), crd)
		if len(errs) == 0 {
			kept = append(kept, rule)
			continue
		}
		for _, err := range errs {
			if err.Type == field.ErrorTypeInternal {
				t.Error(err)
			}
		}
	}
	props.XValidations = kept
}

// TestGenerated runs the checks of FuzzGenerated for the first seeds.
func TestGenerated(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			checkGenerated(t, seed)
		})
	}
}

// FuzzGenerated generates a schema, rules and objects from a seed.
func FuzzGenerated(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkGenerated)
}
