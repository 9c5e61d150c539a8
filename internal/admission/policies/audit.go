package policies

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/policy"
)

// failureKey is the key of the audit annotation that lists failed validations. It contains only failures of
// bindings that have the action Audit.
const failureKey = "validation.policy.admission.k8s.io/validation_failure"

// maxAnnotation is the maximum size of the value of a policy's audit annotation, in bytes.
const maxAnnotation = 10 << 10

// auditFailure is one failed validation in the audit annotation failureKey.
type auditFailure struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

func (v *validator) publishFailures() {
	if len(v.failures) == 0 {
		return
	}
	text, err := json.Marshal(v.failures)
	if err == nil {
		err = v.Annotate(v.ctx, failureKey, string(text))
	}
	if err != nil {
		v.config.Logger.Warn("failed validations are not in the audit log", "err", err)
	}
}

// annotations contains the audit annotations of a policy by key. The values are the distinct values for all
// bindings and parameters.
type annotations map[string][]string

func (a annotations) publish(ctx context.Context, to *admission.Attributes, policyName string) {
	for key, values := range a {
		// An earlier attempt of the request may have recorded a different value, which is kept.
		_ = to.Annotate(ctx, policyName+"/"+key, strings.Join(values, ", "))
	}
}

// annotate evaluates the audit annotations of the policy. They have their own budget. An error rejects the
// request unless the failure policy is Ignore.
func (e evaluation) annotate() {
	budget := policy.Budget(environment.RuntimeBudget)
	for i, program := range e.programs.annotations {
		began := time.Now()
		value, err := program.Evaluate(e.validator.ctx, e.in, &budget)
		if err != nil {
			e.denyAnnotation(outcome{
				message: err.Error(), err: err, location: location{"auditAnnotations", i, "valueExpression", program}, took: time.Since(began),
			})
			if errors.Is(err, policy.ErrBudget) {
				return
			}
			continue
		}
		text, _ := value.(types.String) // a null value adds no annotation
		if trimmed := strings.TrimSpace(string(text)); trimmed != "" {
			key := e.validating.AuditAnnotations[i].Key
			trimmed = trimmed[:min(len(trimmed), maxAnnotation)]
			if !slices.Contains(e.auditAnnotations[key], trimmed) {
				e.auditAnnotations[key] = append(e.auditAnnotations[key], trimmed)
			}
		}
	}
}

// denyAnnotation rejects the request because of an invalid audit annotation, unless the failure policy is
// Ignore.
func (e evaluation) denyAnnotation(o outcome) {
	if e.ignore {
		return
	}
	e.validator.config.Metrics.recordValidation(e.name, e.binding.name, "deny", o.err, o.took)
	e.deny(o)
}
