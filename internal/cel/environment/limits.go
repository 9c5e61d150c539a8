package environment

// Cost limits, in CEL cost units. Reading ten characters costs about one unit. The values are the same as in
// kube-apiserver.
const (
	// PerCallLimit limits the cost of one evaluation of one expression.
	PerCallLimit = 1_000_000
	// RuntimeBudget limits the total cost of all validation expressions for one object.
	RuntimeBudget = 10_000_000
	// RuntimeBudgetMatchConditions limits the total cost of the match conditions of one webhook or policy.
	RuntimeBudgetMatchConditions = RuntimeBudget / 4
	// CheckFrequency is the number of loop iterations between two checks of the context.
	CheckFrequency = 100
)

// Limits on the estimated costs of the rules of a custom resource. A definition that exceeds them is invalid.
const (
	// EstimatedRuleLimit limits the cost of one rule, multiplied by the maximum number of values to which the
	// rule applies in an object.
	EstimatedRuleLimit = 10_000_000
	// EstimatedDefinitionLimit limits the total cost of all rules in one version of a definition.
	EstimatedDefinitionLimit = 100_000_000
)

// Size limits, in bytes.
const (
	// MaxRequestSize is the assumed maximum size of values whose schema has no limit.
	MaxRequestSize = 3 << 20
	// MaxMessageSize is the maximum size of the result of a message expression.
	MaxMessageSize = 5 << 10
)
