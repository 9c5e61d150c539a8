package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"
)

func (p *pod) validateAffinity(f validation.Field) {
	affinity := p.spec.Affinity
	if affinity == nil {
		return
	}
	var old corev1.Affinity
	if p.old != nil && p.old.Affinity != nil {
		old = *p.old.Affinity
	}
	if a := affinity.NodeAffinity; a != nil {
		validateNodeAffinity(f.Child("nodeAffinity"), a, !violatesNodeValues(f, old.NodeAffinity))
	}
	rule := validation.Field.LabelSelector
	if violatesSelectors(f, &old) {
		rule = looseSelector
	}
	if a := affinity.PodAffinity; a != nil {
		validatePodTerms(f.Child("podAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, rule)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		validatePodTerms(f.Child("podAntiAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, rule)
	}
}

// selectorRule validates a label selector.
type selectorRule = func(validation.Field, *metav1.LabelSelector)

// looseSelector validates a selector, but accepts invalid label values. Such values match no object.
func looseSelector(f validation.Field, selector *metav1.LabelSelector) {
	f.Add(metav1validation.ValidateLabelSelector(selector,
		metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}, f.Path())...)
}

// violatesNodeValues reports whether required node labels have invalid values. Stored pods may have them,
// because they may be older than this rule.
func violatesNodeValues(f validation.Field, a *corev1.NodeAffinity) bool {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return f.Violates(func(f validation.Field) {
		for i := range terms {
			for j := range terms[i].MatchExpressions {
				for _, value := range terms[i].MatchExpressions[j].Values {
					f.LabelValue(value)
				}
			}
		}
	})
}

// violatesSelectors reports whether any pod selector is invalid. Stored pods may have invalid selectors, because
// they may be older than this rule.
func violatesSelectors(f validation.Field, a *corev1.Affinity) bool {
	return f.Violates(func(f validation.Field) {
		if a := a.PodAffinity; a != nil {
			validateSelectors(f, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a := a.PodAntiAffinity; a != nil {
			validateSelectors(f, a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	})
}

func validateSelectors(f validation.Field, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i := range required {
		f.LabelSelector(required[i].LabelSelector)
		f.LabelSelector(required[i].NamespaceSelector)
	}
	for i := range preferred {
		f.LabelSelector(preferred[i].PodAffinityTerm.LabelSelector)
		f.LabelSelector(preferred[i].PodAffinityTerm.NamespaceSelector)
	}
}

func validateNodeAffinity(f validation.Field, a *corev1.NodeAffinity, labelValues bool) {
	if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		validateNodeSelector(f.Child(requiredTerms), required, labelValues)
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		term, at := &a.PreferredDuringSchedulingIgnoredDuringExecution[i], f.Child(preferredTerms).Index(i)
		validateWeight(at.Child("weight"), term.Weight)
		validateNodeTerm(at.Child("preference"), &term.Preference, false)
	}
}

func validateWeight(f validation.Field, weight int32) {
	if weight < 1 || weight > 100 {
		f.Invalid(weight, "must be in the range 1-100")
	}
}

// ValidateNodeSelector validates a node selector of a volume or device.
func ValidateNodeSelector(f validation.Field, selector *corev1.NodeSelector) {
	validateNodeSelector(f, selector, true)
}

func validateNodeSelector(f validation.Field, selector *corev1.NodeSelector, labelValues bool) {
	f = f.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		f.Required("must have at least one node selector term")
	}
	for i := range selector.NodeSelectorTerms {
		validateNodeTerm(f.Index(i), &selector.NodeSelectorTerms[i], labelValues)
	}
}

// validateNodeTerm validates a node selector term. labelValues is false for preferences, in which invalid
// label values are accepted because they match no node.
func validateNodeTerm(f validation.Field, term *corev1.NodeSelectorTerm, labelValues bool) {
	for i := range term.MatchExpressions {
		validateNodeExpression(f.Child("matchExpressions").Index(i), &term.MatchExpressions[i], labelValues)
	}
	for i := range term.MatchFields {
		validateNodeField(f.Child("matchFields").Index(i), &term.MatchFields[i])
	}
}

func validateNodeExpression(f validation.Field, r *corev1.NodeSelectorRequirement, labelValues bool) {
	switch values := f.Child("values"); r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			values.Required("must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			values.Forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			values.Required("must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		f.Child("operator").Invalid(r.Operator, "not a valid selector operator")
	}
	f.Child("key").QualifiedName(r.Key)
	for i := range r.Values {
		if labelValues {
			f.Child("values").Index(i).LabelValue(r.Values[i])
		}
	}
}

// validateNodeField validates a requirement for a node field. The only supported field is metadata.name.
func validateNodeField(f validation.Field, r *corev1.NodeSelectorRequirement) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			f.Child("values").Required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
		}
	default:
		f.Child("operator").Invalid(r.Operator, "not a valid selector operator")
	}
	if r.Key != metav1.ObjectNameField {
		f.Child("key").Invalid(r.Key, "not a valid field selector key")
		return
	}
	for i, name := range r.Values {
		f.Child("values").Index(i).DNSSubdomain(name)
	}
}

func validatePodTerms(f validation.Field, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, rule selectorRule) {
	for i := range required {
		validatePodTerm(f.Child(requiredTerms).Index(i), &required[i], rule)
	}
	for i := range preferred {
		at := f.Child(preferredTerms).Index(i)
		validateWeight(at.Child("weight"), preferred[i].Weight)
		validatePodTerm(at.Child("podAffinityTerm"), &preferred[i].PodAffinityTerm, rule)
	}
}

func validatePodTerm(f validation.Field, term *corev1.PodAffinityTerm, rule selectorRule) {
	rule(f.Child("labelSelector"), term.LabelSelector)
	rule(f.Child("namespaceSelector"), term.NamespaceSelector)
	for _, namespace := range term.Namespaces {
		f.Child("namespace").DNSLabel(namespace)
	}
	validateLabelKeys(f, term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector)
	if term.TopologyKey == "" {
		f.Child("topologyKey").Required("can not be empty")
	}
	f.Child("topologyKey").QualifiedName(term.TopologyKey)
}

// validateLabelKeys validates matchLabelKeys and mismatchLabelKeys. When a pod is created, the server adds
// requirements for these keys to the selector. If the selector then contains a key twice, the client's
// selector already contained it.
func validateLabelKeys(f validation.Field, match, mismatch []string, selector *metav1.LabelSelector) {
	for _, keys := range [...]struct {
		field string
		keys  []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		if len(keys.keys) > 0 && selector == nil {
			f.Child(keys.field).Forbidden("must not be specified when labelSelector is not set")
			continue
		}
		for i, key := range keys.keys {
			f.Child(keys.field).Index(i).QualifiedName(key)
		}
	}
	if selector != nil && len(match) > 0 {
		validateMergedKeys(f, match, selector)
		validateOpposedKeys(f.Child("matchLabelKeys"), match, mismatch)
	}
}

// validateUnmergedKeys requires that the selector does not contain any key of matchLabelKeys. It is used if
// the server does not merge these keys into the selector.
func validateUnmergedKeys(f validation.Field, match []string, selector *metav1.LabelSelector) {
	if len(match) == 0 {
		return
	}
	if selector == nil {
		f.Forbidden("must not be specified when labelSelector is not set")
		return
	}
	keys := validation.NewDuplicates[string](len(selector.MatchExpressions) + len(selector.MatchLabels))
	for key := range selector.MatchLabels {
		keys.IsDuplicate(key)
	}
	for i := range selector.MatchExpressions {
		keys.IsDuplicate(selector.MatchExpressions[i].Key)
	}
	for i, key := range match {
		f.Index(i).QualifiedName(key)
		if keys.Has(key) {
			f.Index(i).Invalid(key, "exists in both matchLabelKeys and labelSelector")
		}
	}
}

func validateMergedKeys(f validation.Field, match []string, selector *metav1.LabelSelector) {
	seen := validation.NewDuplicates[string](len(selector.MatchExpressions) + len(selector.MatchLabels))
	for key := range selector.MatchLabels {
		seen.IsDuplicate(key)
	}
	var positions map[string]int // positions of keys in match; created on the first error
	for i := range selector.MatchExpressions {
		key := selector.MatchExpressions[i].Key
		if !seen.IsDuplicate(key) {
			continue
		}
		if positions == nil {
			positions = make(map[string]int, len(match))
			for at, key := range match {
				positions[key] = at
			}
		}
		if at, ok := positions[key]; ok {
			f.Index(at).Invalid(key, "exists in both matchLabelKeys and labelSelector")
		}
	}
}

func validateOpposedKeys(f validation.Field, match, mismatch []string) {
	opposed := validation.NewDuplicates[string](len(mismatch))
	for _, key := range mismatch {
		opposed.IsDuplicate(key)
	}
	for i, key := range match {
		if opposed.Has(key) {
			f.Index(i).Invalid(key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}
