package environment

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/cel/library"
)

// base is made by the first who asks for it: a server without expressions does
// not pay for it.
var base = sync.OnceValues(newBase)

// Base returns the environment that the expressions of Kubernetes v1.37 start
// from. It declares no variables. It is shared and never changes: extend it.
func Base() (*cel.Env, error) { return base() }

func newBase() (*cel.Env, error) {
	env, err := cel.NewEnv(options()...)
	if err != nil {
		return nil, fmt.Errorf("make the base environment of expressions: %w", err)
	}
	return env, nil
}

// options are what kube-apiserver v1.37 takes in a new expression. It keeps one
// version back, so that a cluster can return to v1.36: what came with v1.37 would
// not be here.
func options() []cel.EnvOption {
	return []cel.EnvOption{
		cel.HomogeneousAggregateLiterals(),
		// Declarations are checked here, once, and not again for each extension.
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
		),
		// has() is free; what it looks at is not.
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		// A longer range would cost too much, but be made first.
		ext.Lists(ext.ListsVersion(3), ext.ListsMaxRangeSize(PerCallLimit)),
		library.All(),
		cel.Lib(stringGuard{}),
		cel.Lib(&pairGuard{}),
		cel.Lib(iterations{}),
	}
}

// ProgramOptions are how each expression is evaluated: constant parts worked out
// beforehand, its cost counted and limited to PerCallLimit, its loops ended with
// the context. The caller owns the slice.
func ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(CheckFrequency),
	}
}
