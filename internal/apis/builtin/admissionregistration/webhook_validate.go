package admissionregistration

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

const maxWebhookTimeout = 30 // seconds

// hook contains the fields that validating and mutating webhooks have in common.
type hook struct {
	name         string
	client       *admissionregistrationv1.WebhookClientConfig
	rules        []admissionregistrationv1.RuleWithOperations
	failure      *admissionregistrationv1.FailurePolicyType
	match        *admissionregistrationv1.MatchPolicyType
	effects      *admissionregistrationv1.SideEffectClass
	timeout      *int32
	namespaces   *metav1.LabelSelector
	objects      *metav1.LabelSelector
	versions     []string
	conditions   []admissionregistrationv1.MatchCondition
	reinvocation *admissionregistrationv1.ReinvocationPolicyType // nil for validating webhooks
}

func validatingHooks(webhooks []admissionregistrationv1.ValidatingWebhook) []hook {
	hooks := make([]hook, len(webhooks))
	for i := range webhooks {
		w := &webhooks[i]
		hooks[i] = hook{
			name: w.Name, client: &w.ClientConfig, rules: w.Rules, failure: w.FailurePolicy, match: w.MatchPolicy, effects: w.SideEffects,
			timeout: w.TimeoutSeconds, namespaces: w.NamespaceSelector, objects: w.ObjectSelector, versions: w.AdmissionReviewVersions,
			conditions: w.MatchConditions,
		}
	}
	return hooks
}

func mutatingHooks(webhooks []admissionregistrationv1.MutatingWebhook) []hook {
	hooks := make([]hook, len(webhooks))
	for i := range webhooks {
		w := &webhooks[i]
		hooks[i] = hook{
			name: w.Name, client: &w.ClientConfig, rules: w.Rules, failure: w.FailurePolicy, match: w.MatchPolicy, effects: w.SideEffects,
			timeout: w.TimeoutSeconds, namespaces: w.NamespaceSelector, objects: w.ObjectSelector, versions: w.AdmissionReviewVersions,
			conditions: w.MatchConditions, reinvocation: w.ReinvocationPolicy,
		}
	}
	return hooks
}

func validateValidatingWebhooks(f validation.Field, configuration, old *admissionregistrationv1.ValidatingWebhookConfiguration) {
	var before []hook
	if old != nil {
		before = validatingHooks(old.Webhooks)
	}
	validateNotStatic(f, configuration.Name, old == nil)
	validateHooks(f.Child("webhooks"), validatingHooks(configuration.Webhooks), before)
}

func validateMutatingWebhooks(f validation.Field, configuration, old *admissionregistrationv1.MutatingWebhookConfiguration) {
	var before []hook
	if old != nil {
		before = mutatingHooks(old.Webhooks)
	}
	validateNotStatic(f, configuration.Name, old == nil)
	validateHooks(f.Child("webhooks"), mutatingHooks(configuration.Webhooks), before)
}

// validateHooks validates webhooks. If a stored webhook already violates one of the newer rules, that rule is
// not applied to any webhook.
func validateHooks(f validation.Field, hooks, old []hook) {
	tolerated := violationsOf(old)
	if len(hooks) == len(old) && slices.EqualFunc(hooks, old, func(a, b hook) bool { return !validation.Changed(a.conditions, b.conditions) }) {
		tolerated.conditions = true
	}
	var compiler policy.Compiler
	names := validation.NewDuplicates[string](len(hooks))
	for i := range hooks {
		h, at := &hooks[i], f.Index(i)
		validateHook(at, h, tolerated)
		if !tolerated.conditions {
			validateMatchConditions(at.Child("matchConditions"), h.conditions, &compiler, false)
		}
		if !tolerated.sameNames && h.name != "" && names.IsDuplicate(h.name) {
			at.Child("name").Duplicate(h.name)
		}
	}
}

// violations specifies which newer rules are violated. Violations are tolerated only if stored webhooks
// already have them.
type violations struct {
	sideEffects, unknownVersions, sameNames, labelValues bool
	// conditions specifies that the match conditions have not changed. Unchanged conditions are not validated
	// again, because a newer CEL environment might reject them.
	conditions bool
}

func violationsOf(hooks []hook) violations {
	var found violations
	names := validation.NewDuplicates[string](len(hooks))
	for i := range hooks {
		h := &hooks[i]
		found.sideEffects = found.sideEffects || h.effects == nil || !harmless(*h.effects)
		found.unknownVersions = found.unknownVersions || len(h.versions) > 0 && !slices.ContainsFunc(h.versions, isReviewVersion)
		found.sameNames = names.IsDuplicate(h.name) || found.sameNames
		found.labelValues = found.labelValues || !isSelector(h.namespaces) || !isSelector(h.objects)
	}
	return found
}

func harmless(effects admissionregistrationv1.SideEffectClass) bool {
	return effects == admissionregistrationv1.SideEffectClassNone || effects == admissionregistrationv1.SideEffectClassNoneOnDryRun
}

func isReviewVersion(version string) bool { return version == "v1" || version == "v1beta1" }

func isSelector(selector *metav1.LabelSelector) bool {
	return selector == nil || len(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, nil)) == 0
}

func validateHook(f validation.Field, h *hook, tolerated violations) {
	if strings.Count(h.name, ".") >= 2 {
		f.Child("name").DNSSubdomain(h.name)
	} else {
		f.Add(utilvalidation.IsFullyQualifiedName(f.Child("name").Path(), h.name)...)
	}
	for i := range h.rules {
		validateRule(f.Child("rules").Index(i), &h.rules[i])
	}
	validateFailurePolicy(f.Child("failurePolicy"), h.failure)
	validateMatchPolicy(f.Child("matchPolicy"), h.match)
	validateSideEffects(f.Child("sideEffects"), h.effects, tolerated.sideEffects)
	if seconds := h.timeout; seconds != nil && (*seconds < 1 || *seconds > maxWebhookTimeout) {
		f.Child("timeoutSeconds").Invalid(*seconds, "the timeout value must be between 1 and 30 seconds")
	}
	validateSelector(f.Child("namespaceSelector"), h.namespaces, tolerated.labelValues)
	validateSelector(f.Child("objectSelector"), h.objects, tolerated.labelValues)
	if h.reinvocation != nil {
		validation.OneOf(f.Child("reinvocationPolicy"), *h.reinvocation,
			admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	}
	validateClient(f.Child("clientConfig"), h.client)
	validateVersions(f.Child("admissionReviewVersions"), h.versions, tolerated.unknownVersions)
}

func validateSideEffects(f validation.Field, effects *admissionregistrationv1.SideEffectClass, tolerated bool) {
	allowed := []admissionregistrationv1.SideEffectClass{
		admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun,
		admissionregistrationv1.SideEffectClassSome, admissionregistrationv1.SideEffectClassUnknown,
	}
	if !tolerated {
		allowed = allowed[:2]
	}
	if effects != nil {
		validation.OneOf(f, *effects, allowed...)
		return
	}
	var names []string
	for _, effect := range allowed {
		names = append(names, string(effect))
	}
	f.Required("must specify one of " + strings.Join(names, ", "))
}

func validateSelector(f validation.Field, selector *metav1.LabelSelector, anyValue bool) {
	if !anyValue {
		f.LabelSelector(selector)
		return
	}
	f.Add(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}, f.Path())...)
}

func validateClient(f validation.Field, client *admissionregistrationv1.WebhookClientConfig) {
	switch service := client.Service; {
	case (client.URL == nil) == (service == nil):
		f.Required("exactly one of url or service is required")
	case client.URL != nil:
		f.Add(webhook.ValidateURL(*client.URL, f.Child("url").Path())...)
	default:
		port := int32(webhookPort)
		if service.Port != nil {
			port = *service.Port
		}
		f.Add(webhook.ValidateService(service.Name, service.Namespace, service.Path, port, f.Child("service").Path())...)
	}
}

// validateVersions requires at least one AdmissionReview version that the previous server release supports.
// Otherwise, the server could not call the webhook after a downgrade to that release.
func validateVersions(f validation.Field, versions []string, anyVersion bool) {
	if len(versions) == 0 {
		f.Required("must specify one of v1, v1beta1")
		return
	}
	seen := validation.NewDuplicates[string](len(versions))
	for i, version := range versions {
		if seen.IsDuplicate(version) {
			f.Index(i).Invalid(version, "duplicate version")
			continue
		}
		f.Index(i).InvalidFor(version, utilvalidation.IsDNS1035Label(version))
	}
	if !anyVersion && !slices.ContainsFunc(versions, isReviewVersion) {
		f.Invalid(versions, "must include at least one of v1, v1beta1")
	}
}
