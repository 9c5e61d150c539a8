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

// base creates the base environment on first use, because creating it takes several milliseconds and some
// servers evaluate no expressions. It is a package variable that all servers in the process share. This is safe
// because the environment depends only on constants and is immutable: Extend copies a cel.Env, and the
// libraries set their fields only during newBase.
var base = sync.OnceValues(newBase)

// Base returns the base environment, which equals the base environment of Kubernetes v1.37. It declares no
// variables; callers extend it. The first call takes several milliseconds. All calls return the same result,
// which is shared and immutable. An error is an error of cel-go. Base is safe for concurrent use.
func Base() (*cel.Env, error) { return base() }

func newBase() (*cel.Env, error) {
	env, err := cel.NewEnv(options()...)
	if err != nil {
		return nil, fmt.Errorf("create the base CEL environment: %w", err)
	}
	return env, nil
}

// options returns the options of the environment that kube-apiserver v1.37 uses for new expressions. It is the
// environment of v1.36, so that a cluster can be downgraded to v1.36.
func options() []cel.EnvOption {
	return []cel.EnvOption{
		cel.HomogeneousAggregateLiterals(),
		// Validate declarations once here, not for each extension.
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
		// The test of has() itself costs nothing, but its operand does.
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		// A longer range would exceed the cost limit anyway, but only after it has been created.
		ext.Lists(ext.ListsVersion(3), ext.ListsMaxRangeSize(PerCallLimit)),
		library.All(),
		cel.Lib(stringGuard{}),
		cel.Lib(equalGuard{}),
		cel.Lib(&pairGuard{}),
		cel.Lib(iterations{}),
	}
}

// ProgramOptions returns the options for all programs: constant folding, cost tracking with the limit
// PerCallLimit, and loops that stop when the context is done. The caller owns the slice.
func ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(CheckFrequency),
	}
}
