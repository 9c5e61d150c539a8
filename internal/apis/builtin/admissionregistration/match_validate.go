package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/cel/policy"
)

const (
	wildcard           = "*"
	maxMatchConditions = 64
)

// validateWildcardAlone reports an error if values contains both the wildcard and other values.
func validateWildcardAlone[S ~string](f validation.Field, values []S, what string) {
	if len(values) > 1 && slices.Contains(values, wildcard) {
		f.Invalid(values, "if '*' is present, must not specify other "+what)
	}
}

func validateRule(f validation.Field, rule *admissionregistrationv1.RuleWithOperations) {
	operations := f.Child("operations")
	if len(rule.Operations) == 0 {
		operations.Required("")
	}
	validateWildcardAlone(operations, rule.Operations, "operations")
	for i, operation := range rule.Operations {
		validation.OneOf(operations.Index(i), operation, admissionregistrationv1.OperationAll, admissionregistrationv1.Connect,
			admissionregistrationv1.Create, admissionregistrationv1.Delete, admissionregistrationv1.Update)
	}
	if len(rule.APIGroups) == 0 { // several of the lists may be empty at once
		f.Child("apiGroups").Required("")
	}
	validateWildcardAlone(f.Child("apiGroups"), rule.APIGroups, "API groups")
	versions := f.Child("apiVersions")
	if len(rule.APIVersions) == 0 {
		versions.Required("")
	}
	validateWildcardAlone(versions, rule.APIVersions, "API versions")
	for i, version := range rule.APIVersions {
		if version == "" {
			versions.Index(i).Required("")
		}
	}
	validateResources(f.Child("resources"), rule.Resources)
	if scope := rule.Scope; scope != nil {
		validation.OneOf(f.Child("scope"), *scope,
			admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)
	}
}

// validateResources rejects resources that are already covered by a wildcard. Like kube-apiserver, it ignores
// entries before a wildcard with a slash, and compares only the subresource of the last entry.
func validateResources(f validation.Field, resources []string) {
	if len(resources) == 0 {
		f.Required("")
	}
	everySubresource, everyResource := validation.NewDuplicates[string](len(resources)), validation.NewDuplicates[string](len(resources))
	plain := false // whether the last entry without a slash is not a wildcard
	for i, text := range resources {
		resource, subresource, slash := strings.Cut(text, "/")
		if text == "" {
			f.Index(i).Required("")
			continue
		}
		if !slash {
			plain = text != wildcard
			continue
		}
		if everySubresource.Has(resource) {
			f.Index(i).Invalid(text, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, text))
		}
		if everyResource.Has(subresource) {
			f.Index(i).Invalid(text, fmt.Sprintf("if '*/%s' is present, must not specify %s", subresource, text))
		}
		if subresource == wildcard {
			everySubresource.IsDuplicate(resource)
		}
		if resource == wildcard {
			everyResource.IsDuplicate(subresource)
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		f.Invalid(resources, "if '*/*' is present, must not specify other resources")
	}
	if plain && slices.Contains(resources, wildcard) {
		f.Invalid(resources, "if '*' is present, must not specify other resources without subresources")
	}
}

// validateMatchResources validates the match constraints of a policy or binding. All fields in match have
// defaults, so it reports missing fields.
func validateMatchResources(f validation.Field, match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	if match.MatchPolicy == nil {
		f.Child("matchPolicy").Required("")
	}
	validateMatchPolicy(f.Child("matchPolicy"), match.MatchPolicy)
	for _, s := range [...]struct {
		name     string
		selector *metav1.LabelSelector
	}{{"namespaceSelector", match.NamespaceSelector}, {"objectSelector", match.ObjectSelector}} {
		if s.selector == nil {
			f.Child(s.name).Required("")
		}
		f.Child(s.name).LabelSelector(s.selector)
	}
	for i := range match.ResourceRules {
		validateNamedRule(f.Child("resourceRules").Index(i), &match.ResourceRules[i])
	}
	for i := range match.ExcludeResourceRules {
		validateNamedRule(f.Child("excludeResourceRules").Index(i), &match.ExcludeResourceRules[i])
	}
}

func validateMatchPolicy(f validation.Field, match *admissionregistrationv1.MatchPolicyType) {
	if match != nil {
		validation.OneOf(f, *match, admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)
	}
}

func validateFailurePolicy(f validation.Field, failure *admissionregistrationv1.FailurePolicyType) {
	if failure != nil {
		validation.OneOf(f, *failure, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	}
}

func validateNamedRule(f validation.Field, rule *admissionregistrationv1.NamedRuleWithOperations) {
	names := validation.NewDuplicates[string](len(rule.ResourceNames))
	for i, name := range rule.ResourceNames {
		at := f.Child("resourceNames").Index(i)
		at.InvalidFor(name, path.IsValidPathSegmentName(name))
		if names.IsDuplicate(name) {
			at.Duplicate(name)
		}
	}
	validateRule(f, &rule.RuleWithOperations)
}

// validateMatchConditions validates match conditions, whose names must be unique.
func validateMatchConditions(f validation.Field, conditions []admissionregistrationv1.MatchCondition, compiler *policy.Compiler, params bool) {
	if len(conditions) > maxMatchConditions {
		f.TooMany(len(conditions), maxMatchConditions)
	}
	names := validation.NewDuplicates[string](len(conditions))
	for i := range conditions {
		condition, at := &conditions[i], f.Index(i)
		sees := policy.Scope{Params: params, Authorizer: true}
		if text := strings.TrimSpace(condition.Expression); text == "" {
			at.Child("expression").Required("")
		} else if err := compile(f, compiler, text, sees, cel.BoolType); err != nil {
			at.Child("expression").Invalid(text, err.Error())
		}
		if condition.Name == "" {
			at.Child("name").Required("")
			continue
		}
		at.Child("name").QualifiedName(condition.Name)
		if names.IsDuplicate(condition.Name) {
			at.Child("name").Duplicate(condition.Name)
		}
	}
}

// compile returns the error of an expression, or nil if the expression is valid. Because compilation is slow,
// it returns an error if the request has been canceled.
func compile(f validation.Field, compiler *policy.Compiler, text string, sees policy.Scope, results ...*cel.Type) error {
	if err := f.Context().Err(); err != nil {
		return fmt.Errorf("compile expressions: %w", err)
	}
	return compiler.Check(text, sees, results...)
}
