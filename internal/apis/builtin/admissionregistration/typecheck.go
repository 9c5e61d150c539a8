package admissionregistration

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/cel/typed"
)

// maxTypesToCheck is the maximum number of kinds against which the expressions of a policy are type-checked.
const maxTypesToCheck = 10

// maxResourcesToCheck is the maximum number of resources that are looked up when a policy is type-checked. The
// limit is necessary because a rule with a thousand groups, versions and resources each has 10^9 combinations.
const maxResourcesToCheck = 10_000

func prepareValidatingPolicy(op *builtin.Operation, p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	typeCheck(op, p, 1)
}

// prepareValidatingPolicyUpdate type-checks a policy if it has changed or has not been checked yet.
func prepareValidatingPolicyUpdate(op *builtin.Operation, p, old *admissionregistrationv1.ValidatingAdmissionPolicy) {
	generation := old.Generation
	if validation.Changed(p.Spec, old.Spec) {
		generation++
	}
	if generation > old.Status.ObservedGeneration {
		typeCheck(op, p, generation)
	}
}

// typeCheck type-checks the expressions of a policy for the kinds that its rules name, and records the errors
// in the status. kube-apiserver does this in a controller, after the policy has taken effect.
func typeCheck(op *builtin.Operation, p *admissionregistrationv1.ValidatingAdmissionPolicy, generation int64) {
	types := op.Env.Types
	if types == nil {
		return
	}
	c := typeChecker{op: op, spec: &p.Spec}
	for _, gvk := range typesToCheck(types, &p.Spec) {
		if t := types.TypeOf(gvk); t != nil {
			c.kinds = append(c.kinds, checkedKind{gvk: gvk, typ: t})
		}
	}
	if kind := p.Spec.ParamKind; kind != nil {
		c.params = types.TypeOf(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	}
	p.Status.ObservedGeneration = generation
	p.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: c.check()}
}

// typesToCheck returns the kinds that rules name without a wildcard, sorted.
func typesToCheck(types builtin.TypeResolver, spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) []schema.GroupVersionKind {
	if spec.MatchConstraints == nil {
		return nil
	}
	var kinds []schema.GroupVersionKind
	lookups := 0
	for i := range spec.MatchConstraints.ResourceRules {
		eachResource(&spec.MatchConstraints.ResourceRules[i].Rule, func(gvr schema.GroupVersionResource) bool {
			if gvk := types.KindOf(gvr); !gvk.Empty() && !slices.Contains(kinds, gvk) {
				kinds = append(kinds, gvk)
			}
			lookups++
			return len(kinds) < maxTypesToCheck && lookups < maxResourcesToCheck
		})
	}
	slices.SortStableFunc(kinds, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind, b.Kind))
	})
	return kinds
}

// eachResource calls yield for each resource of a rule, until yield returns false. It skips rules with a
// wildcard for groups or versions, resources with a wildcard, and subresources.
func eachResource(rule *admissionregistrationv1.Rule, yield func(schema.GroupVersionResource) bool) {
	if slices.Contains(rule.APIGroups, wildcard) || slices.Contains(rule.APIVersions, wildcard) {
		return
	}
	resources := slices.DeleteFunc(slices.Clone(rule.Resources), func(resource string) bool { return strings.ContainsAny(resource, "*/") })
	if len(resources) == 0 {
		return
	}
	for _, group := range rule.APIGroups {
		for _, version := range rule.APIVersions {
			for _, resource := range resources {
				if !yield(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}) {
					return
				}
			}
		}
	}
}

// typeChecker type-checks the expressions of one policy.
type typeChecker struct {
	op     *builtin.Operation
	spec   *admissionregistrationv1.ValidatingAdmissionPolicySpec
	kinds  []checkedKind
	params *typed.Type
}

type checkedKind struct {
	gvk      schema.GroupVersionKind
	typ      *typed.Type
	compiler *policy.Compiler // nil before it is first used
}

func (c *typeChecker) check() []admissionregistrationv1.ExpressionWarning {
	var warnings []admissionregistrationv1.ExpressionWarning
	at := field.NewPath("spec", "validations")
	add := func(at *field.Path, text string) {
		if issues := c.issues(text); issues != "" {
			warnings = append(warnings, admissionregistrationv1.ExpressionWarning{FieldRef: at.String(), Warning: issues})
		}
	}
	for i := range c.spec.Validations {
		v := &c.spec.Validations[i]
		add(at.Index(i).Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			add(at.Index(i).Child("messageExpression"), v.MessageExpression)
		}
	}
	return warnings
}

// issues returns the errors of an expression for all kinds.
func (c *typeChecker) issues(text string) string {
	var all []string
	for i := range c.kinds {
		if c.op.Context.Err() != nil {
			return "" // the request has been canceled
		}
		k := &c.kinds[i]
		if err := c.compiler(k).Check(text, c.scope()); err != nil {
			all = append(all, fmt.Sprintf("%v: %s\n", k.gvk, strings.TrimPrefix(err.Error(), "compilation failed: ")))
		}
	}
	return strings.Join(all, "\n")
}

func (c *typeChecker) scope() policy.Scope {
	return policy.Scope{Params: c.spec.ParamKind != nil, Authorizer: true}
}

// compiler returns the compiler for expressions that refer to objects of a kind. The variables of the policy
// are declared.
func (c *typeChecker) compiler(k *checkedKind) *policy.Compiler {
	if k.compiler != nil {
		return k.compiler
	}
	k.compiler = &policy.Compiler{Variables: true, Object: k.typ, Params: c.params}
	for i := range c.spec.Variables {
		_ = k.compiler.Declare(c.spec.Variables[i].Name, c.spec.Variables[i].Expression, c.scope()) // reported where the variable is used
	}
	return k.compiler
}
