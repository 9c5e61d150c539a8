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

// Conditions contains the compiled match conditions of a policy or webhook. It is immutable and safe for
// concurrent use.
type Conditions []condition

type condition struct {
	name    string
	program *Program
}

// Conditions compiles match conditions. If an expression is invalid, Match returns an error.
func (c *Compiler) Conditions(listed []admissionregistrationv1.MatchCondition, scope Scope) Conditions {
	conditions := make(Conditions, len(listed))
	for i := range listed {
		conditions[i] = condition{listed[i].Name, c.Program(listed[i].Expression, scope, cel.BoolType)}
	}
	return conditions
}

// Match reports whether all conditions are true. If a condition is false, Match returns false and the name of
// this condition, regardless of the errors of other conditions. Otherwise, if any evaluations failed, it
// returns an error that contains all of their errors. The conditions have their own cost budget; if it is
// exceeded, the error wraps ErrBudget.
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
		return false, "", utilerrors.NewAggregate(errs) // formats several errors like kube-apiserver
	}
	return true, "", nil
}
