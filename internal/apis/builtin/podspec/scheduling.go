package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// validateScheduling validates the fields that determine when and on which node a pod is scheduled.
func (p *pod) validateScheduling(f validation.Field) {
	f.Child("nodeSelector").Labels(p.spec.NodeSelector)
	p.validateAffinity(f.Child("affinity"))
	p.validateTolerations(f.Child("tolerations"))
	p.validateSpread(f.Child("topologySpreadConstraints"))
	for i := range p.spec.ReadinessGates {
		f.Child("readinessGates").Index(i).Child("conditionType").QualifiedName(string(p.spec.ReadinessGates[i].ConditionType))
	}
	gates := validation.NewDuplicates[string](len(p.spec.SchedulingGates))
	for i := range p.spec.SchedulingGates {
		name, at := p.spec.SchedulingGates[i].Name, f.Child("schedulingGates").Index(i)
		at.QualifiedName(name)
		if gates.IsDuplicate(name) {
			at.Duplicate(name)
		}
	}
}

func (p *pod) validateTolerations(f validation.Field) {
	compares := f.Enabled(feature.TaintTolerationComparisonOperators) || p.old != nil && slices.ContainsFunc(p.old.Tolerations, compared)
	for i := range p.spec.Tolerations {
		t, at := &p.spec.Tolerations[i], f.Index(i)
		if t.Key != "" {
			at.Child("key").QualifiedName(t.Key)
		} else if t.Operator != corev1.TolerationOpExists {
			at.Child("operator").Invalid(t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			at.Child("effect").Invalid(t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		validateTolerationValue(at.Child("operator"), t, compares)
		if t.Effect != "" {
			validation.OneOf(at.Child("effect"), t.Effect,
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		}
	}
}

// compared reports whether the operator of a toleration compares numbers.
func compared(t corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
}

// validateTolerationValue validates whether a toleration's value suits its operator. As in kube-apiserver, the
// error message lists the comparison operators even if they are disabled.
func validateTolerationValue(f validation.Field, t *corev1.Toleration, compares bool) {
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		f.LabelValue(t.Value)
	case corev1.TolerationOpExists:
		if t.Value != "" {
			f.Invalid(t.Value, "value must be empty when `operator` is 'Exists'")
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if compares {
			f.InvalidFor(t.Value, content.IsDecimalInteger(t.Value))
			return
		}
		validation.NotSupported(f, t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt)
	default:
		validation.OneOf(f, t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
	}
}

func (p *pod) validateSpread(f validation.Field) {
	type spread struct {
		key    string
		action corev1.UnsatisfiableConstraintAction
	}
	rules := p.keptSpread(f)
	seen := validation.NewDuplicates[spread](len(p.spec.TopologySpreadConstraints))
	for i := len(p.spec.TopologySpreadConstraints) - 1; i >= 0; i-- { // of two equal constraints, the first one is reported
		c, at := &p.spec.TopologySpreadConstraints[i], f.Index(i)
		validateSpreadConstraint(at, c)
		rules.validate(at, c)
		if seen.IsDuplicate(spread{c.TopologyKey, c.WhenUnsatisfiable}) {
			at.Child("{topologyKey, whenUnsatisfiable}").Duplicate(fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable))
		}
	}
}

// spreadRules specifies which rules for the selectors of topology spread constraints apply. anySelector and
// anyKeys disable rules that are newer than some stored constraints.
type spreadRules struct{ anySelector, anyKeys, merged bool }

func (p *pod) keptSpread(f validation.Field) spreadRules {
	rules := spreadRules{merged: f.Enabled(feature.MatchLabelKeysInPodTopologySpreadSelectorMerge)}
	if p.old == nil {
		return rules
	}
	before := p.old.TopologySpreadConstraints
	rules.anySelector = f.Violates(func(f validation.Field) {
		for i := range before {
			f.LabelSelector(before[i].LabelSelector)
		}
	})
	rules.anyKeys = f.Violates(func(f validation.Field) {
		for i := range before {
			rules.validateKeys(f, &before[i])
		}
	})
	return rules
}

func (r spreadRules) validate(f validation.Field, c *corev1.TopologySpreadConstraint) {
	if !r.anySelector {
		f.Child("labelSelector").LabelSelector(c.LabelSelector)
	}
	if !r.anyKeys {
		r.validateKeys(f, c)
	}
}

func (r spreadRules) validateKeys(f validation.Field, c *corev1.TopologySpreadConstraint) {
	if r.merged {
		validateLabelKeys(f, c.MatchLabelKeys, nil, c.LabelSelector)
	} else {
		validateUnmergedKeys(f.Child("matchLabelKeys"), c.MatchLabelKeys, c.LabelSelector)
	}
}

func validateSpreadConstraint(f validation.Field, c *corev1.TopologySpreadConstraint) {
	if c.MaxSkew <= 0 {
		f.Child("maxSkew").Invalid(c.MaxSkew, "must be greater than zero")
	}
	if c.TopologyKey == "" {
		f.Child("topologyKey").Required("can not be empty")
	}
	validation.OneOf(f.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
	if n := c.MinDomains; n != nil {
		if *n <= 0 {
			f.Child("minDomains").Invalid(*n, "must be greater than zero")
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			f.Child("minDomains").Invalid(*n, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable))
		}
	}
	for _, policy := range [...]struct {
		name  string
		value *corev1.NodeInclusionPolicy
	}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
		if policy.value != nil {
			validation.OneOf(f.Child(policy.name), *policy.value, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		}
	}
}
