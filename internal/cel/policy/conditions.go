package policy

import (
	"context"
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/cel/environment"
)

// Conditions are the match conditions of a policy or a webhook. It is immutable and safe
// for concurrent use.
type Conditions []condition

type condition struct {
	name    string
	program *Program
}

// Conditions compiles match conditions.
func (c *Compiler) Conditions(listed []admissionregistrationv1.MatchCondition, sees Scope) Conditions {
	conditions := make(Conditions, len(listed))
	for i := range listed {
		conditions[i] = condition{listed[i].Name, c.Program(listed[i].Expression, sees, cel.BoolType)}
	}
	return conditions
}

// Match reports whether all conditions are true, or the name of a false one. A false condition
// takes precedence over errors; otherwise the error contains all failed evaluations.
func (c Conditions) Match(ctx context.Context, in *Input) (matches bool, failed string, err error) {
	budget := Budget(environment.RuntimeBudgetMatchConditions)
	var errs []error
	for i := range c {
		value, err := c[i].program.Evaluate(ctx, in, &budget)
		switch {
		case errors.Is(err, ErrBudget):
			return false, "", err
		case err != nil:
			errs = append(errs, err)
		case value == types.False:
			return false, c[i].name, nil
		}
	}
	if len(errs) > 0 {
		return false, "", utilerrors.NewAggregate(errs) // its text is as kube-apiserver's messages show several
	}
	return true, "", nil
}
