package policies

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/cel/policy"
)

// rejection records that a policy rejects the request.
type rejection struct {
	policy, binding string // binding is "" for an error in the policy itself
	param           types.NamespacedName
	message         string
	reason          metav1.StatusReason
	location        location
	err             error // evaluation error, or nil
}

// location identifies an expression in a policy: it is the field member of element index of the list spec.list.
// If member is empty, location identifies the whole list. The zero value is an unknown location.
type location struct {
	list    string
	index   int
	member  string
	program *policy.Program
}

func (p location) String() string {
	if p.member == "" {
		return "spec." + p.list
	}
	return fmt.Sprintf("spec.%s[%d].%s", p.list, p.index, p.member)
}

// causes returns the causes of a rejection. The first one contains the message, as in kube-apiserver. If the
// expression is known, a second one contains it.
func (r *rejection) causes(kind, message string) []metav1.StatusCause {
	causes := []metav1.StatusCause{{Message: message}}
	if r.location.list == "" {
		return causes
	}
	text := fmt.Sprintf("%s '%s' with binding '%s'", kind, r.policy, r.binding)
	if r.param.Name != "" {
		text += fmt.Sprintf(" and parameter '%s'", nameOf(r.param))
	}
	if r.location.program != nil {
		if line := r.location.program.LineOf(r.err); line > 0 {
			text += fmt.Sprintf(" at line %d", line)
		}
		text += ": " + admission.TruncateExpression(r.location.program.Text())
	}
	return append(causes, metav1.StatusCause{Type: admission.CausePolicy, Field: r.location.String(), Message: text})
}

// nameOf formats the name of an object, with its namespace if it has one.
func nameOf(name types.NamespacedName) string {
	if name.Namespace == "" {
		return name.Name
	}
	return name.String()
}

// startDecision starts recording the decision of a policy. It returns nil if no explanation was requested.
func (r *review) startDecision(policyName, binding string, param types.NamespacedName) *admission.DecisionRecorder {
	if r.Explanation == nil {
		return nil
	}
	return r.StartDecision(admission.Decision{Policy: policyName, Binding: binding, Param: nameOf(param)})
}
