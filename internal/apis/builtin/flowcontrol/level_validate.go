package flowcontrol

import (
	"fmt"
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

const (
	maxQueues = 10_000_000
	// maxEntropy is the maximum number of hash bits that may be needed to select the queues of a flow. With
	// more bits, some queues would be selected noticeably more often.
	maxEntropy = 60
)

func validatePriorityLevel(f validation.Field, level, _ *flowcontrolv1.PriorityLevelConfiguration) {
	f, spec := f.Child("spec"), &level.Spec
	if (level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		f.Child("type").Invalid(spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'")
	}
	switch spec.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if spec.Limited != nil {
			f.Child("limited").Forbidden("must be nil if the type is not Limited")
		}
		validateExempt(f.Child("exempt"), spec.Exempt)
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if spec.Exempt != nil {
			f.Child("exempt").Forbidden("must be nil if the type is Limited")
		}
		if spec.Limited == nil {
			f.Child("limited").Required("must not be empty when type is Limited")
		} else {
			validateLimited(f.Child("limited"), spec.Limited)
		}
	default:
		validation.NotSupported(f.Child("type"), spec.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)
	}
	validateMandatoryLevel(f, level)
}

// validateMandatoryLevel rejects changes to the spec of a mandatory level. In the exempt level, spec.exempt can
// change.
func validateMandatoryLevel(f validation.Field, level *flowcontrolv1.PriorityLevelConfiguration) {
	fixed := bootstrap.MandatoryPriorityLevel(level.Name)
	if fixed == nil {
		return
	}
	spec, except := level.Spec, ""
	if level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
		spec.Exempt, except = fixed.Spec.Exempt, " except the 'spec.exempt' field"
	}
	if validation.Changed(spec, fixed.Spec) {
		f.Invalid(level.Spec, fmt.Sprintf("spec of '%s'%s must equal the fixed value", level.Name, except))
	}
}

func validateExempt(f validation.Field, exempt *flowcontrolv1.ExemptPriorityLevelConfiguration) {
	if exempt != nil {
		validateShares(f, exempt.NominalConcurrencyShares, exempt.LendablePercent)
	}
}

func validateShares(f validation.Field, shares, lendable *int32) {
	if shares != nil && *shares < 0 {
		f.Child("nominalConcurrencyShares").Invalid(*shares, "must be a non-negative integer")
	}
	if lendable != nil {
		f.Child("lendablePercent").Between(int64(*lendable), 0, 100)
	}
}

func validateLimited(f validation.Field, limited *flowcontrolv1.LimitedPriorityLevelConfiguration) {
	validateShares(f, limited.NominalConcurrencyShares, limited.LendablePercent)
	if percent := limited.BorrowingLimitPercent; percent != nil && *percent < 0 {
		f.Child("borrowingLimitPercent").Invalid(*percent, "if specified, must be a non-negative integer")
	}
	f, response := f.Child("limitResponse"), &limited.LimitResponse
	queuing := f.Child("queuing")
	switch response.Type { // as in kube-apiserver, the errors for queuing name the type Limited instead of Queue
	case flowcontrolv1.LimitResponseTypeReject:
		if response.Queuing != nil {
			queuing.Forbidden("must be nil if limited.limitResponse.type is not Limited")
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if response.Queuing == nil {
			queuing.Required("must not be empty if limited.limitResponse.type is Limited")
		} else {
			validateQueuing(queuing, response.Queuing)
		}
	default:
		validation.NotSupported(f.Child("type"), response.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)
	}
}

func validateQueuing(f validation.Field, queuing *flowcontrolv1.QueuingConfiguration) {
	positive(f.Child("queueLengthLimit"), queuing.QueueLengthLimit)
	positive(f.Child("queues"), queuing.Queues)
	if queuing.Queues > maxQueues {
		f.Child("queues").Invalid(queuing.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	}
	hand := f.Child("handSize")
	positive(hand, queuing.HandSize)
	switch {
	case queuing.HandSize <= 0:
	case queuing.HandSize > queuing.Queues:
		hand.Invalid(queuing.HandSize, fmt.Sprintf("should not be greater than queues (%d)", queuing.Queues))
	case math.Ceil(math.Log2(float64(queuing.Queues))*float64(queuing.HandSize)) > maxEntropy:
		hand.Invalid(queuing.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
			queuing.Queues, queuing.HandSize, maxEntropy))
	}
}

func positive(f validation.Field, n int32) {
	if n <= 0 {
		f.Invalid(n, "must be positive")
	}
}

func validatePriorityLevelStatus(f validation.Field, level, _ *flowcontrolv1.PriorityLevelConfiguration) {
	conditions := level.Status.Conditions
	types := validation.NewDuplicates[flowcontrolv1.PriorityLevelConfigurationConditionType](len(conditions))
	for i := range conditions {
		validateConditionType(f.Child("status").Child("conditions").Index(i).Child("type"), conditions[i].Type, &types)
	}
}

func validateConditionType[T ~string](f validation.Field, kind T, seen *validation.Duplicates[T]) {
	if seen.IsDuplicate(kind) {
		f.Duplicate(kind)
	}
	if kind == "" {
		f.Required("")
	}
}
