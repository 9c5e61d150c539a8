package environment

// Cost limits, in CEL cost units; reading ten characters costs about one unit. The values equal
// kube-apiserver's.
const (
	// PerCallLimit limits one evaluation of one expression.
	PerCallLimit = 1_000_000
	// RuntimeBudget limits the sum of all validation expressions for one object.
	RuntimeBudget = 10_000_000
	// RuntimeBudgetMatchConditions limits the sum of the match conditions of one webhook or policy.
	RuntimeBudgetMatchConditions = RuntimeBudget / 4
	// CheckFrequency is the number of loop iterations between two checks of the context.
	CheckFrequency = 100
)

// Limits of the estimated cost of the rules of a custom resource. A definition that exceeds them is
// invalid.
const (
	// EstimatedRuleLimit limits the cost of one rule, multiplied by the maximum number of values in
	// an object to which the rule applies.
	EstimatedRuleLimit = 10_000_000
	// EstimatedDefinitionLimit limits the sum of all rules of one version of a definition.
	EstimatedDefinitionLimit = 100_000_000
)

// Size limits, in bytes.
const (
	// MaxRequestSize is the assumed maximum size of values whose schema has no limit.
	MaxRequestSize = 3 << 20
	// MaxMessageSize is the maximum size of the result of a message expression.
	MaxMessageSize = 5 << 10
)
