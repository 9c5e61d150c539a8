package environment

// Limits in units of cost; about one unit is one look at a value of the size of
// ten characters. They are kube-apiserver's.
const (
	// PerCallLimit is what one evaluation of one expression may cost.
	PerCallLimit = 1_000_000
	// RuntimeBudget is what all expressions that one object is validated with may
	// cost together.
	RuntimeBudget = 10_000_000
	// RuntimeBudgetMatchConditions is what the match conditions of one webhook or
	// policy may cost together.
	RuntimeBudgetMatchConditions = RuntimeBudget / 4
	// CheckFrequency is after how many iterations of its loops an evaluation looks
	// whether its context is done.
	CheckFrequency = 100
)

// Limits on the estimated cost of the rules of a custom resource, which a
// definition is refused for.
const (
	// EstimatedRuleLimit is what one rule may cost, times the number of places of an
	// object that it may apply to.
	EstimatedRuleLimit = 10_000_000
	// EstimatedDefinitionLimit is what all rules of one version of a definition may
	// cost together.
	EstimatedDefinitionLimit = 100_000_000
)

// Limits on sizes, in bytes.
const (
	// MaxRequestSize bounds the values of objects whose schema gives no bound.
	MaxRequestSize = 3 << 20
	// MaxMessageSize bounds the text that a message expression makes.
	MaxMessageSize = 5 << 10
)
