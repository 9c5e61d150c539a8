package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// Default values.
const (
	matchingPrecedence = 1000
	concurrencyShares  = 30
	queues             = 64
	handSize           = 8
	queueLengthLimit   = 50
)

func defaultFlowSchema(schema *flowcontrolv1.FlowSchema) {
	builtin.SetDefaultValue(&schema.Spec.MatchingPrecedence, matchingPrecedence)
}

func defaultPriorityLevel(level *flowcontrolv1.PriorityLevelConfiguration) {
	if limited := level.Spec.Limited; limited != nil {
		builtin.SetDefault(&limited.NominalConcurrencyShares, concurrencyShares)
		builtin.SetDefault(&limited.LendablePercent, 0)
		if queuing := limited.LimitResponse.Queuing; queuing != nil {
			builtin.SetDefaultValue(&queuing.Queues, queues)
			builtin.SetDefaultValue(&queuing.HandSize, handSize)
			builtin.SetDefaultValue(&queuing.QueueLengthLimit, queueLengthLimit)
		}
	}
	if exempt := level.Spec.Exempt; exempt != nil {
		builtin.SetDefault(&exempt.NominalConcurrencyShares, 0)
		builtin.SetDefault(&exempt.LendablePercent, 0)
	}
}
