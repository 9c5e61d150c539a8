package environment

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/internal/cel/library"
)

// base creates the base environment on first use, so that a server without expressions does not pay
// for it. It is a package variable, shared by servers, because it depends on constants only and is
// immutable: Extend copies a cel.Env, and its libraries write to their fields only during newBase.
var base = sync.OnceValues(newBase)

// Base returns the base environment of Kubernetes v1.37. It declares no variables. It is
// shared and immutable; callers extend it. It is safe for concurrent use.
func Base() (*cel.Env, error) { return base() }

func newBase() (*cel.Env, error) {
	env, err := cel.NewEnv(options()...)
	if err != nil {
		return nil, fmt.Errorf("make the base environment of expressions: %w", err)
	}
	return env, nil
}

// options returns the environment for new expressions in kube-apiserver v1.37: that of v1.36, so
// that a cluster can be downgraded.
func options() []cel.EnvOption {
	return []cel.EnvOption{
		cel.HomogeneousAggregateLiterals(),
		// Declarations are validated here once, not for each extension.
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
		// has() is free; its operand is not.
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		// A longer range would exceed the cost limit only after it was made.
		ext.Lists(ext.ListsVersion(3), ext.ListsMaxRangeSize(PerCallLimit)),
		library.All(),
		cel.Lib(stringGuard{}),
		cel.Lib(equalGuard{}),
		cel.Lib(&pairGuard{}),
		cel.Lib(iterations{}),
	}
}

// ProgramOptions returns the options of all programs: constant folding, cost tracking with
// the limit PerCallLimit, and loops that end with the context. The caller owns the slice.
func ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(CheckFrequency),
	}
}
