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

// failureKey is the audit annotation that has the failures that bindings want audited.
const failureKey = "validation.policy.admission.k8s.io/validation_failure"

// maxAnnotation is the maximum size of an audit annotation of a policy, in bytes.
const maxAnnotation = 10 << 10

// auditFailure is a failed validation in that annotation.
type auditFailure struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

func (v *verdict) publishFailures() {
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

// annotations are the audit annotations of a policy by key, with the distinct values of all
// bindings and parameters.
type annotations map[string][]string

func (a annotations) publish(ctx context.Context, to *admission.Attributes, policyName string) {
	for key, values := range a {
		// An earlier attempt of the request may have a different value, which stays.
		_ = to.Annotate(ctx, policyName+"/"+key, strings.Join(values, ", "))
	}
}

// annotate evaluates the audit annotations of the policy with their own budget. An error rejects
// the request unless the failure policy ignores it.
func (e evaluation) annotate() {
	budget := policy.Budget(environment.RuntimeBudget)
	for i, program := range e.programs.annotations {
		began := time.Now()
		value, err := program.Evaluate(e.verdict.ctx, e.in, &budget)
		if err != nil {
			e.annotationFailed(outcome{
				message: err.Error(), err: err, at: place{"auditAnnotations", i, "valueExpression", program}, took: time.Since(began),
			})
			if errors.Is(err, policy.ErrBudget) {
				return
			}
			continue
		}
		text, _ := value.(types.String) // or null, which adds no annotation
		if trimmed := strings.TrimSpace(string(text)); trimmed != "" {
			key := e.validating.AuditAnnotations[i].Key
			trimmed = trimmed[:min(len(trimmed), maxAnnotation)]
			if !slices.Contains(e.said[key], trimmed) {
				e.said[key] = append(e.said[key], trimmed)
			}
		}
	}
}

func (e evaluation) annotationFailed(o outcome) {
	if e.ignore {
		return
	}
	e.verdict.config.Metrics.validated(e.name, e.binding.name, "deny", o.err, o.took)
	e.deny(o)
}
