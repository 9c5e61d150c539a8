package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

const wildcard = "*"

func validateFlowSchema(f validation.Field, schema, _ *flowcontrolv1.FlowSchema) {
	f, spec := f.Child("spec"), &schema.Spec
	validatePrecedence(f.Child("matchingPrecedence"), schema)
	if method := spec.DistinguisherMethod; method != nil {
		switch method.Type {
		case flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType:
		default:
			validation.NotSupported(f.Child("distinguisherMethod").Child("type"), method,
				flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType)
		}
	}
	if level := spec.PriorityLevelConfiguration.Name; level == "" {
		f.Child("priorityLevelConfiguration").Child("name").Required("must reference a priority level")
	} else {
		f.Child("priorityLevelConfiguration").Child("name").DNSSubdomain(level)
	}
	for i := range spec.Rules {
		validateRule(f.Child("rules").Index(i), &spec.Rules[i])
	}
	if fixed := bootstrap.MandatoryFlowSchema(schema.Name); fixed != nil && validation.Changed(*spec, fixed.Spec) {
		f.Invalid(*spec, fmt.Sprintf("spec of '%s' must equal the fixed value", schema.Name))
	}
}

func validatePrecedence(f validation.Field, schema *flowcontrolv1.FlowSchema) {
	precedence := schema.Spec.MatchingPrecedence
	switch {
	case precedence <= 0:
		f.Invalid(precedence, "must be a positive value")
	case precedence > flowcontrolv1.FlowSchemaMaxMatchingPrecedence:
		f.Invalid(precedence, fmt.Sprintf("must not be greater than %d", flowcontrolv1.FlowSchemaMaxMatchingPrecedence))
	case precedence == 1 && schema.Name != flowcontrolv1.FlowSchemaNameExempt:
		f.Invalid(precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
	}
}

func validateRule(f validation.Field, rule *flowcontrolv1.PolicyRulesWithSubjects) {
	if len(rule.Subjects) == 0 {
		f.Child("subjects").Required("subjects must contain at least one value")
	}
	for i := range rule.Subjects {
		validateSubject(f.Child("subjects").Index(i), &rule.Subjects[i])
	}
	if len(rule.ResourceRules) == 0 && len(rule.NonResourceRules) == 0 {
		f.Required("at least one of resourceRules and nonResourceRules has to be non-empty")
	}
	for i := range rule.ResourceRules {
		validateResourceRule(f.Child("resourceRules").Index(i), &rule.ResourceRules[i])
	}
	for i := range rule.NonResourceRules {
		validateNonResourceRule(f.Child("nonResourceRules").Index(i), &rule.NonResourceRules[i])
	}
}

// validateSubject requires the field that belongs to the kind of the subject, and forbids the fields of the
// other kinds.
func validateSubject(f validation.Field, subject *flowcontrolv1.Subject) {
	group, account, user := flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser
	if kind := subject.Kind; kind != group && kind != account && kind != user {
		validation.NotSupported(f.Child("kind"), kind, group, account, user)
		return
	}
	if ofKind(f.Child("group"), subject.Kind, group, "group", subject.Group != nil) && subject.Group.Name == "" {
		f.Child("group").Child("name").Required("")
	}
	if ofKind(f.Child("user"), subject.Kind, user, "user", subject.User != nil) && subject.User.Name == "" {
		f.Child("user").Child("name").Required("")
	}
	if ofKind(f.Child("serviceAccount"), subject.Kind, account, "serviceAccount", subject.ServiceAccount != nil) {
		validateAccount(f.Child("serviceAccount"), subject.ServiceAccount)
	}
}

// ofKind requires that a field is set if and only if the kind of the subject equals of, the kind to which the
// field belongs. It reports whether the field is set and the kinds are equal.
func ofKind(f validation.Field, kind, of flowcontrolv1.SubjectKind, name string, set bool) bool {
	if kind != of && set {
		f.Forbidden(fmt.Sprintf("%s is forbidden when subject kind is not '%s'", name, of))
	}
	if kind == of && !set {
		f.Required(fmt.Sprintf("%s is required when subject kind is '%s'", name, of))
	}
	return kind == of && set
}

func validateAccount(f validation.Field, account *flowcontrolv1.ServiceAccountSubject) {
	if account.Name == "" {
		f.Child("name").Required("")
	} else if account.Name != flowcontrolv1.NameAll {
		f.Child("name").DNSSubdomain(account.Name)
	}
	if account.Namespace == "" {
		f.Child("namespace").Required("must specify namespace for service account")
	} else {
		f.Child("namespace").DNSLabel(account.Namespace)
	}
}

// validateWildcardAlone reports an error if values contains the wildcard and another value. It reports whether
// values contains the wildcard.
func validateWildcardAlone(f validation.Field, values []string, what string) bool {
	if !slices.Contains(values, wildcard) {
		return false
	}
	if len(values) > 1 {
		f.Invalid(values, "if '*' is present, must not specify other "+what)
	}
	return true
}

func validateVerbs(f validation.Field, verbs []string) {
	if len(verbs) == 0 {
		f.Required("verbs must contain at least one value")
		return
	}
	if validateWildcardAlone(f, verbs, "verbs") {
		return
	}
	for _, verb := range verbs {
		switch verb {
		case "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch":
		default:
			validation.NotSupported(f, verbs, "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
			return
		}
	}
}

func validateResourceRule(f validation.Field, rule *flowcontrolv1.ResourcePolicyRule) {
	validateVerbs(f.Child("verbs"), rule.Verbs)
	if len(rule.APIGroups) == 0 {
		f.Child("apiGroups").Required("resource rules must supply at least one api group")
	}
	validateWildcardAlone(f.Child("apiGroups"), rule.APIGroups, "api groups")
	if len(rule.Resources) == 0 {
		f.Child("resources").Required("resource rules must supply at least one resource")
	}
	validateWildcardAlone(f.Child("resources"), rule.Resources, "resources")
	if len(rule.Namespaces) == 0 && !rule.ClusterScope {
		f.Child("namespaces").Required("resource rules that are not cluster scoped must supply at least one namespace")
	}
	if validateWildcardAlone(f.Child("namespaces"), rule.Namespaces, "namespaces") {
		return
	}
	for i, namespace := range rule.Namespaces {
		for _, problem := range apivalidation.IsDNS1123Label(namespace) {
			f.Child("namespaces").Index(i).Invalid(namespace, "each member of this list must be '*' or a DNS-1123 label; "+problem)
		}
	}
}

func validateNonResourceRule(f validation.Field, rule *flowcontrolv1.NonResourcePolicyRule) {
	validateVerbs(f.Child("verbs"), rule.Verbs)
	f = f.Child("nonResourceURLs")
	if len(rule.NonResourceURLs) == 0 {
		f.Required("nonResourceURLs must contain at least one value")
	}
	if validateWildcardAlone(f, rule.NonResourceURLs, "non-resource URLs") {
		return
	}
	for i, path := range rule.NonResourceURLs {
		validatePath(f.Index(i), path)
	}
}

// validatePath validates a URL path, which may end with a wildcard.
func validatePath(f validation.Field, path string) {
	at := strings.IndexByte(path, '*')
	switch {
	case path == "":
		f.Invalid(path, "must not be empty")
	case path[0] != '/':
		f.Invalid(path, "must start with slash")
	case strings.Contains(path, " "):
		f.Invalid(path, "must not contain white-space")
	case strings.Contains(path, "//"):
		f.Invalid(path, "must not contain double slash")
	case at >= 0 && (at < len(path)-1 || path[at-1] != '/'):
		f.Invalid(path, "wildcard can only do suffix matching")
	}
}

func validateFlowSchemaStatus(f validation.Field, schema, _ *flowcontrolv1.FlowSchema) {
	conditions := schema.Status.Conditions
	types := validation.NewDuplicates[flowcontrolv1.FlowSchemaConditionType](len(conditions))
	for i := range conditions {
		validateConditionType(f.Child("status").Child("conditions").Index(i).Child("type"), conditions[i].Type, &types)
	}
}
