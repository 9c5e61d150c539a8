package flowcontrol

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

func TestFlowSchema(t *testing.T) {
	t.Parallel()
	type schema = flowcontrolv1.FlowSchema
	valid := func() *schema {
		s := bootstrap.MandatoryFlowSchema(flowcontrolv1.FlowSchemaNameCatchAll)
		s.Name = "test"
		s.Spec.Rules[0].Subjects = append(s.Spec.Rules[0].Subjects, flowcontrolv1.Subject{
			Kind:           flowcontrolv1.SubjectKindServiceAccount,
			ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "a", Name: flowcontrolv1.NameAll},
		})
		return s
	}
	resourceRule := func(s *schema) *flowcontrolv1.ResourcePolicyRule { return &s.Spec.Rules[0].ResourceRules[0] }
	path := func(path string) func(*schema) {
		return func(s *schema) { s.Spec.Rules[0].NonResourceRules[0].NonResourceURLs = []string{path} }
	}
	const at = "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "
	validationtest.Rules[schema](validateFlowSchema).Create(t, valid, []validationtest.Case[schema]{
		{Name: "no rules", Change: func(s *schema) { s.Spec.Rules = nil }},
		{Name: "no distinguisher", Change: func(s *schema) { s.Spec.DistinguisherMethod = nil }},
		{Name: "precedence 0", Change: func(s *schema) { s.Spec.MatchingPrecedence = 0 }, Want: []string{"spec.matchingPrecedence: Invalid value: 0: must be a positive value"}},
		{Name: "precedence 1", Change: func(s *schema) { s.Spec.MatchingPrecedence = 1 }, Want: []string{"only the schema named 'exempt' may have matchingPrecedence 1"}},
		{Name: "wildcard and others", Change: func(s *schema) {
			rule := resourceRule(s)
			rule.Verbs, rule.APIGroups, rule.Resources, rule.Namespaces = []string{"*", "get"}, []string{"*", ""}, []string{"a", "*"}, []string{"*", "b"}
		}, Want: []string{"other verbs", "other api groups", "other resources", "other namespaces"}},
		{Name: "cluster scope only", Change: func(s *schema) { resourceRule(s).Namespaces = nil }},
		{Name: "neither namespaces nor cluster scope", Change: func(s *schema) { resourceRule(s).Namespaces, resourceRule(s).ClusterScope = nil, false }, Want: []string{"spec.rules[0].resourceRules[0].namespaces: Required value"}},
		{Name: "all users", Change: func(s *schema) {
			s.Spec.Rules[0].Subjects[0] = flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "*"}}
		}},
		{Name: "all namespaces", Change: func(s *schema) { s.Spec.Rules[0].Subjects[2].ServiceAccount.Namespace = "*" }, Want: []string{"spec.rules[0].subjects[2].serviceAccount.namespace"}},
		{Name: "root path", Change: path("/")},
		{Name: "wildcard suffix", Change: path("/a/*")},
		{Name: "double slash", Change: path("/a//b"), Want: []string{at + "\"/a//b\": must not contain double slash"}},
		{Name: "space", Change: path("/a b"), Want: []string{"must not contain white-space"}},
		{Name: "wildcard inside a segment", Change: path("/a*"), Want: []string{"wildcard can only do suffix matching"}},
		{Name: "wildcard in the middle", Change: path("/*/a"), Want: []string{"wildcard can only do suffix matching"}},
	})
	validationtest.Rules[schema](validateFlowSchemaStatus).Update(t, valid, []validationtest.Case[schema]{
		{Name: "condition", Change: func(s *schema) {
			s.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "A"}, {Type: "A"}, {}}
		}, Want: []string{
			"status.conditions[1].type: Duplicate value: \"A\"", "status.conditions[2].type: Required value",
		}},
	})
}

func TestPriorityLevel(t *testing.T) {
	t.Parallel()
	type level = flowcontrolv1.PriorityLevelConfiguration
	valid := func() *level {
		l := &level{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{
				Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{},
			}},
		}}
		l.Name = "test"
		defaultPriorityLevel(l)
		return l
	}
	queues := func(queues, hand int32) func(*level) {
		return func(l *level) {
			l.Spec.Limited.LimitResponse.Queuing.Queues, l.Spec.Limited.LimitResponse.Queuing.HandSize = queues, hand
		}
	}
	validationtest.Rules[level](validatePriorityLevel).Create(t, valid, []validationtest.Case[level]{
		{Name: "zero shares", Change: func(l *level) { *l.Spec.Limited.NominalConcurrencyShares = 0 }},
		{Name: "maximum entropy", Change: queues(1024, 6)},
		{Name: "too much entropy", Change: queues(1025, 6), Want: []string{"required entropy bits of deckSize 1025 and handSize 6 should not be greater than 60"}},
		{Name: "maximum number of queues", Change: queues(10_000_000, 2)},
		{Name: "too many queues", Change: queues(10_000_001, 2), Want: []string{"must not be greater than 10000000"}},
		{Name: "reject", Change: func(l *level) { l.Spec.Limited.LimitResponse.Type = flowcontrolv1.LimitResponseTypeReject }, Want: []string{"queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"}},
		{Name: "exempt by type", Change: func(l *level) { l.Spec = bootstrap.MandatoryPriorityLevel("exempt").Spec }, Want: []string{"must be 'Exempt' if and only if `name` is 'exempt'"}},
		{Name: "exempt by name", Change: func(l *level) { l.Name = "exempt" }, Want: []string{"must be 'Exempt' if and only if", "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"}},
	})
}

// TestMandatory checks that the mandatory objects are valid, and that their specs are immutable except for
// spec.exempt.
func TestMandatory(t *testing.T) {
	t.Parallel()
	type schema = flowcontrolv1.FlowSchema
	type level = flowcontrolv1.PriorityLevelConfiguration
	for _, name := range []string{"exempt", "catch-all"} {
		validationtest.Rules[schema](validateFlowSchema).Update(t, func() *schema { return bootstrap.MandatoryFlowSchema(name) }, []validationtest.Case[schema]{
			{Name: "labels of " + name, Change: func(s *schema) { s.Labels = map[string]string{"a": "b"} }},
			{Name: "spec of " + name, Change: func(s *schema) { s.Spec.Rules = nil }, Want: []string{"spec of '" + name + "' must equal the fixed value"}},
		})
	}
	validationtest.Rules[level](validatePriorityLevel).Update(t, func() *level { return bootstrap.MandatoryPriorityLevel("exempt") }, []validationtest.Case[level]{
		{Name: "lendable", Change: func(l *level) { *l.Spec.Exempt.LendablePercent = 50 }},
		{Name: "lendable percentage too high", Change: func(l *level) { *l.Spec.Exempt.LendablePercent = 101 }, Want: []string{"spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"}},
	})
	validationtest.Rules[level](validatePriorityLevel).Update(t, func() *level { return bootstrap.MandatoryPriorityLevel("catch-all") }, []validationtest.Case[level]{
		{Name: "shares", Change: func(l *level) { *l.Spec.Limited.NominalConcurrencyShares = 6 }, Want: []string{"spec of 'catch-all' must equal the fixed value"}},
	})
}
