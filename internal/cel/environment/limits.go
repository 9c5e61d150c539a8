package environment

// Limits in units of cost, of which one is about reading ten characters. They are
// kube-apiserver's.
const (
	// PerCallLimit bounds one evaluation of one expression.
	PerCallLimit = 1_000_000
	// RuntimeBudget bounds all expressions that validate one object, together.
	RuntimeBudget = 10_000_000
	// RuntimeBudgetMatchConditions bounds the match conditions of one webhook or
	// policy, together.
	RuntimeBudgetMatchConditions = RuntimeBudget / 4
	// CheckFrequency is after how many iterations of loops an evaluation checks its
	// context.
	CheckFrequency = 100
)

// Limits on the estimated cost of the rules of a custom resource; a definition that
// exceeds them is invalid.
const (
	// EstimatedRuleLimit bounds the cost of one rule, times the number of values in
	// an object that it can apply to.
	EstimatedRuleLimit = 10_000_000
	// EstimatedDefinitionLimit bounds all rules of one version of a definition,
	// together.
	EstimatedDefinitionLimit = 100_000_000
)

// Limits on sizes, in bytes.
const (
	// MaxRequestSize is the maximum size of values whose schema has no limit, in bytes.
	MaxRequestSize = 3 << 20
	// MaxMessageSize bounds the result of a message expression.
	MaxMessageSize = 5 << 10
)
