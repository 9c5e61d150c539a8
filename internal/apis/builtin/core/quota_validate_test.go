package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestLimitRanges(t *testing.T) {
	t.Parallel()
	limits := func(items ...corev1.LimitRangeItem) func(*corev1.LimitRange) {
		return func(l *corev1.LimitRange) { l.Spec.Limits = items }
	}
	item := func(kind corev1.LimitType, change func(*corev1.LimitRangeItem)) func(*corev1.LimitRange) {
		i := corev1.LimitRangeItem{Type: kind, Min: amounts("cpu", "1"), Max: amounts("cpu", "4")}
		change(&i)
		return limits(i)
	}
	type one = *corev1.LimitRangeItem
	validationtest.Rules[corev1.LimitRange](validateLimitRange).Create(t, func() *corev1.LimitRange { return &corev1.LimitRange{} }, []validationtest.Case[corev1.LimitRange]{
		{Name: "defaults in order", Change: item("Container", func(i one) {
			i.Default, i.DefaultRequest, i.MaxLimitRequestRatio = amounts("cpu", "4"), amounts("cpu", "1"), amounts("cpu", "4")
		})},
		{Name: "a type twice", Change: limits(corev1.LimitRangeItem{Type: "Pod"}, corev1.LimitRangeItem{Type: "Pod"}), Want: []string{"spec.limits[1].type: Duplicate"}},
		{Name: "types", Change: limits(corev1.LimitRangeItem{Type: "Node"}, corev1.LimitRangeItem{Type: "a/b"}, corev1.LimitRangeItem{Type: "a b"}),
			Want: []string{"spec.limits[0].type: Invalid value: \"Node\": must be a standard limit type or fully qualified", "spec.limits[2].type: Invalid value"}},
		{Name: "min above max", Change: item("Pod", func(i one) { i.Max = amounts("cpu", "500m") }),
			Want: []string{`spec.limits[0].min[cpu]: Invalid value: "1": min value 1 is greater than max value 500m`}},
		{Name: "defaults of pods", Change: item("Pod", func(i one) { i.Default, i.DefaultRequest = amounts("x", "9"), amounts("cpu", "9") }),
			Want: []string{"spec.limits[0].default: Forbidden", "spec.limits[0].defaultRequest: Forbidden"}},
		{Name: "defaults out of order", Change: item("Container", func(i one) { i.Default, i.DefaultRequest = amounts("cpu", "5"), amounts("cpu", "6") }), Want: []string{
			`defaultRequest[cpu]: Invalid value: "6": default request value 6 is greater than max value 4`,
			`defaultRequest[cpu]: Invalid value: "6": default request value 6 is greater than default limit value 5`,
			`default[cpu]: Invalid value: "4": default value 5 is greater than max value 4`,
		}},
		{Name: "defaults too small", Change: item("Container", func(i one) { i.Default, i.DefaultRequest = amounts("cpu", "500m"), amounts("cpu", "500m") }), Want: []string{
			`defaultRequest[cpu]: Invalid value: "500m": min value 1 is greater than default request value 500m`,
			`default[cpu]: Invalid value: "1": min value 1 is greater than default value 500m`,
		}},
		{Name: "what cannot be promised twice", Change: item("Container", func(i one) { i.Default, i.DefaultRequest = amounts("a.b/gpu", "2"), amounts("a.b/gpu", "1") }),
			Want: []string{`defaultRequest[a.b/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in a.b/gpu`}},
		{Name: "ratios", Change: item("Container", func(i one) { i.MaxLimitRequestRatio = amounts("cpu", "4500m") }),
			Want: []string{`maxLimitRequestRatio[cpu]: Invalid value: "4500m": ratio 4500m is greater than max/min = 4.000000`}},
		{Name: "a ratio below one", Change: item("Container", func(i one) { i.MaxLimitRequestRatio = amounts("memory", "500m") }),
			Want: []string{`maxLimitRequestRatio[memory]: Invalid value: "500m": ratio 500m is less than 1`}},
		{Name: "pods of a pod", Change: limits(corev1.LimitRangeItem{Type: "Pod", Max: amounts("pods", "1")}),
			Want: []string{`max[pods]: Invalid value: "pods": must be a standard resource for containers`}},
		{Name: "claims", Change: limits(corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Max: amounts("storage", "1"), Min: amounts("x", "1")}),
			Want: []string{`min[x]: Invalid value: "x": must be a standard resource type or fully qualified`}},
		{Name: "claims of any size", Change: limits(corev1.LimitRangeItem{Type: "PersistentVolumeClaim"}), Want: []string{"spec.limits[0].limits: Required value"}},
	})
	unnamed := &corev1.LimitRange{}
	prepareLimitRange(nil, unnamed)
	if len(unnamed.Name) != 36 {
		t.Errorf("the generated name is %q", unnamed.Name)
	}
}

func TestResourceQuotas(t *testing.T) {
	t.Parallel()
	type (
		quota = corev1.ResourceQuota
		test  = validationtest.Case[quota]
		scope = corev1.ResourceQuotaScope
	)
	newQuota := func() *quota {
		return &quota{Spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", "1", "requests.cpu", "1", "count/a.b", "1"), Scopes: []scope{"NotBestEffort", "Terminating"}}}
	}
	selected := func(expressions ...corev1.ScopedResourceSelectorRequirement) func(*quota) {
		return func(q *quota) { q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: expressions} }
	}
	rules := validationtest.Rules[quota](validateResourceQuota)
	rules.Create(t, newQuota, []test{
		{Name: "storage", Change: func(q *quota) { q.Spec.Hard = amounts("storage", "1") }, Want: []string{`spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota`}},
		{Name: "half a pod", Change: func(q *quota) { q.Spec.Hard = amounts("pods", "500m") }, Want: []string{"spec.hard[pods]: Invalid value: \"500m\": must be an integer"}},
		{Name: "huge pages", Change: func(q *quota) { q.Spec.Hard, q.Spec.Scopes = amounts("requests.hugepages-2Mi", "3"), nil }},
		{Name: "secrets that end", Change: func(q *quota) { q.Spec.Hard = amounts("secrets", "1"); q.Spec.Scopes = []scope{"Terminating"} },
			Want: []string{`spec.scopes: Invalid value: ["Terminating"]: unsupported scope applied to resource`}},
		{Name: "CPUs of best effort", Change: func(q *quota) { q.Spec.Scopes = []scope{"BestEffort"} }, Want: []string{"unsupported scope applied to resource"}},
		{Name: "opposites", Change: func(q *quota) { q.Spec.Scopes = []scope{"Terminating", "NotTerminating"} }, Want: []string{"spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes"}},
		{Name: "claims of a class", Change: func(q *quota) {
			q.Spec.Hard, q.Spec.Scopes = amounts("persistentvolumeclaims", "1", "requests.storage", "1Gi"), []scope{"VolumeAttributesClass"}
		}},
		{Name: "no scope", Change: func(q *quota) { q.Spec.Scopes = []scope{"x"} }, Want: []string{"spec.scopes: Invalid value: [\"x\"]: unsupported scope"}},
		{Name: "priorities", Change: selected(corev1.ScopedResourceSelectorRequirement{ScopeName: "PriorityClass", Operator: "In", Values: []string{"high"}})},
		{Name: "no priority", Change: selected(corev1.ScopedResourceSelectorRequirement{ScopeName: "PriorityClass", Operator: "NotIn"}),
			Want: []string{"spec.scopeSelector.matchExpressions.values: Required value"}},
		{Name: "a value too many", Change: selected(corev1.ScopedResourceSelectorRequirement{ScopeName: "PriorityClass", Operator: "Exists", Values: []string{"high"}}),
			Want: []string{"spec.scopeSelector.matchExpressions.values: Invalid value: [\"high\"]: must be no value"}},
		{Name: "a scope without values", Change: selected(corev1.ScopedResourceSelectorRequirement{ScopeName: "NotTerminating", Operator: "DoesNotExist"}),
			Want: []string{"spec.scopeSelector.matchExpressions.operator: Invalid value: \"DoesNotExist\": must be 'Exists' when scope is any of"}},
		{Name: "selected opposites", Change: selected(corev1.ScopedResourceSelectorRequirement{ScopeName: "Terminating", Operator: "Exists"},
			corev1.ScopedResourceSelectorRequirement{ScopeName: "NotTerminating", Operator: "Exists"}),
			Want: []string{"spec.scopeSelector.matchExpressions: Invalid value: [\"NotBestEffort\",\"Terminating\"]: conflicting scopes"}},
		{Name: "nothing that is known", Change: selected(corev1.ScopedResourceSelectorRequirement{}), Want: []string{
			"matchExpressions.scopeName: Invalid value: \"\": unsupported scope", "matchExpressions.operator: Invalid value: \"\": not a valid selector operator",
		}},
	})
	rules.Update(t, newQuota, []test{
		{Name: "another order", Change: func(q *quota) { q.Spec.Scopes = []scope{"Terminating", "NotBestEffort", "Terminating"} }},
		{Name: "more", Change: func(q *quota) { q.Spec.Hard = amounts("pods", "2") }},
		{Name: "a scope less", Change: func(q *quota) { q.Spec.Scopes = q.Spec.Scopes[:1] }, Want: []string{"spec.scopes: Invalid value: [\"NotBestEffort\"]: field is immutable"}},
		{Name: "another scope", Change: func(q *quota) { q.Spec.Scopes[1] = "NotTerminating" }, Want: []string{"field is immutable"}},
	})
	validationtest.Rules[quota](validateResourceQuotaStatus).Update(t, newQuota, []test{
		{Name: "less than nothing", Change: func(q *quota) { q.Status.Hard, q.Status.Used = amounts("pods", "-1"), amounts("x", "1") },
			Want: []string{"status.hard[pods]: Invalid value", "status.used[x]: Invalid value", "status.used[x]: Invalid value"}},
	})
}

func TestResourceQuotaWarnings(t *testing.T) {
	t.Parallel()
	quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: amounts(
		"cpu", "2", "limits.cpu", "1", "memory", "3", "requests.memory", "1", "limits.memory", "2", "requests.ephemeral-storage", "2", "limits.ephemeral-storage", "1",
	)}}
	want := []string{
		"ResourceQuota cpu (2) should be less than limits.cpu (1)",
		"ResourceQuota requests.ephemeral-storage (2) should be less than limits.ephemeral-storage (1)",
	}
	if diff := cmp.Diff(want, resourceQuotaWarnings(nil, quota, nil)); diff != "" {
		t.Error(diff)
	}
	if said := resourceQuotaWarnings(nil, quota, quota); said != nil {
		t.Errorf("warnings on update: %q", said)
	}
}
