package policies

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Mutating is the admission plugin for MutatingAdmissionPolicies. It is safe for concurrent use.
type Mutating struct{ *policySet }

var _ admission.Mutator = Mutating{}

// NewMutating returns the plugin, which has no policies yet. It retains config.
func NewMutating(config *Config) Mutating {
	return Mutating{newSet(config, mutatingPolicies, mutatingDefinition, mutatingBinding)}
}

func mutatingDefinition(p *admissionregistrationv1.MutatingAdmissionPolicy) *definition {
	return &definition{
		name: p.Name, matcher: match.New(p.Spec.MatchConstraints), paramKind: p.Spec.ParamKind, ignore: ignores(p.Spec.FailurePolicy),
		conditions: p.Spec.MatchConditions, variables: p.Spec.Variables, mutating: &p.Spec,
	}
}

func mutatingBinding(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) *binding {
	return &binding{name: b.Name, policy: b.Spec.PolicyName, matcher: match.New(b.Spec.MatchResources), paramRef: b.Spec.ParamRef}
}

// Name implements admission.Plugin.
func (Mutating) Name() string { return "MutatingAdmissionPolicy" }

// Handles implements admission.Plugin. Deletions have no object to modify, but they are included because a
// misconfigured policy rejects them, as in kube-apiserver.
func (Mutating) Handles(admission.Operation) bool { return true }

// Mutate implements admission.Mutator. It continues after a policy has rejected the request, because the
// response lists the rejections of all policies.
func (p Mutating) Mutate(ctx context.Context, a *admission.Attributes) error {
	policies := p.candidates(&a.Request)
	if len(policies) == 0 {
		return nil
	}
	m := mutator{review: p.config.review(ctx, p.config.subject(a)), config: p.config, reinvocation: p.reinvocationStateOf(a)}
	if a.Reinvoked() && !apiequality.Semantic.DeepEqual(m.reinvocation.output, a.Object) {
		m.reinvocation.markDue() // another plugin has changed the object
	}
	for _, i := range m.invocations(policies) {
		if err := m.invoke(i); err != nil {
			return err
		}
	}
	m.reinvocation.saveOutput(a.Object)
	return m.result()
}

// reinvocationStateOf returns the state of the first pass, or a new state in the first pass.
func (p Mutating) reinvocationStateOf(a *admission.Attributes) *reinvocationState {
	if have, ok := a.State(p).(*reinvocationState); ok {
		return have
	}
	made := &reinvocationState{invoked: map[invocationKey]bool{}, due: map[invocationKey]bool{}}
	a.SetState(p, made)
	return made
}

// reinvocationState records which invocations to repeat in the second pass.
type reinvocationState struct {
	// invoked contains the invocations that have the reinvocation policy IfNeeded and were made since the
	// object was last modified. due contains the invocations to repeat in the second pass.
	invoked, due map[invocationKey]bool
	// output is a copy of the object at the end of the plugin's last pass.
	output runtime.Object
}

// markDue schedules a repetition of the invocations in invoked, because the object has been modified since.
func (r *reinvocationState) markDue() {
	for key := range r.invoked {
		r.due[key] = true
	}
	clear(r.invoked)
}

// saveOutput stores a copy of the object if a second pass may need to compare it.
func (r *reinvocationState) saveOutput(obj runtime.Object) {
	if r.output = nil; obj != nil && len(r.invoked) > 0 {
		r.output = obj.DeepCopyObject()
	}
}

// invocation is the application of a policy with one binding and one parameter.
type invocation struct {
	*definition
	binding  *binding
	param    param
	resource *rest.Resource
	// decision records the decision of the policy; nil if no explanation was requested.
	decision *admission.DecisionRecorder
}

type invocationKey struct {
	policy, binding string
	param           types.NamespacedName
}

func (i *invocation) key() invocationKey { return invocationKey{i.name, i.binding.name, i.param.name} }

// mutator evaluates all policies for one request.
type mutator struct {
	*review
	config       *Config
	reinvocation *reinvocationState
	rejections   []rejection
}

// invocations returns the matching policies with their matching bindings and parameters. Policies and bindings
// are sorted by name.
func (m *mutator) invocations(policies []*boundPolicy) []invocation {
	var list []invocation
	for _, h := range policies {
		matched, err := h.matcher.Match(m.ctx, m.Subject)
		if err != nil {
			m.misconfigured(h.definition, "", fmt.Errorf("failed to configure policy: %w", err))
			continue
		}
		if matched == nil {
			continue
		}
		for _, b := range h.bindings {
			list = append(list, m.bindingInvocations(h, b, matched)...)
		}
	}
	return list
}

func (m *mutator) bindingInvocations(h *boundPolicy, b *binding, matched *rest.Resource) []invocation {
	bound, err := b.matcher.Match(m.ctx, m.Subject)
	if err == nil && bound == nil {
		return nil
	}
	var params []param
	if err == nil {
		params, err = m.config.params(m.ctx, &m.Request, h.paramKind, b.paramRef)
	}
	if err != nil {
		m.misconfigured(h.definition, b.name, fmt.Errorf("failed to configure binding: %w", err))
		return nil
	}
	list := make([]invocation, len(params))
	for i := range params {
		list[i] = invocation{definition: h.definition, binding: b, param: params[i], resource: matched}
	}
	return list
}

// invoke applies the mutations of a policy in order. Errors that the policy caused are recorded as rejections.
// A returned error is an API error that the policy did not cause.
func (m *mutator) invoke(i invocation) error {
	programs := i.programs(m.config.Programs)
	in, err := m.input(i.resource, i.param.document, programs.variables)
	if err != nil {
		return err
	}
	i.decision = m.startDecision(i.name, i.binding.name, i.param.name)
	matches, failed, err := programs.conditions.Match(m.ctx, in)
	switch {
	case err != nil:
		i.decision.End(err)
		m.reject(i, location{list: "matchConditions"}, err)
		return nil
	case !matches:
		i.decision.SetUnmet(failed)
		i.decision.End(nil)
		return nil
	case m.Reinvoked() && !m.reinvocation.due[i.key()]:
		return nil
	}
	changed, err := m.mutateAll(i, programs.mutations)
	i.decision.End(err)
	if err != nil {
		return err
	}
	if changed {
		m.RecordMutator(fmt.Sprintf("MutatingAdmissionPolicy '%s' with binding '%s'", i.name, i.binding.name))
		m.reinvocation.markDue()
		m.Reinvoke()
	}
	if i.mutating.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy {
		m.reinvocation.invoked[i.key()] = true
	}
	return nil
}

// mutateAll applies the mutations in order, and reports whether any of them changed the object. Errors are
// handled as in invoke.
func (m *mutator) mutateAll(i invocation, programs []*policy.Program) (changed bool, err error) {
	for n, program := range programs {
		did, err := m.mutate(i, n, program)
		if err != nil {
			return changed, err
		}
		changed = changed || did
	}
	return changed, nil
}

// mutate applies the n-th mutation, and reports whether it changed the object. Errors are handled as in invoke.
func (m *mutator) mutate(i invocation, n int, program *policy.Program) (bool, error) {
	before, ok := m.Object.(codec.Object)
	if !ok { // the request is a deletion, or its object contains connect options
		return false, nil
	}
	spec := &i.mutating.Mutations[n]
	began := time.Now()
	err := m.apply(i, spec, program)
	took := time.Since(began)
	m.config.Metrics.recordMutation(i.name, i.binding.name, err, took)
	at := location{"mutations", n, expressionField(spec), program}
	i.explain(at, err, took)
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return false, status
	case err != nil:
		m.reject(i, at, err)
		return false, nil
	}
	return !apiequality.Semantic.DeepEqual(before, m.Object), nil
}

// expressionField returns the path of a mutation's expression, relative to the mutation.
func expressionField(spec *admissionregistrationv1.Mutation) string {
	if spec.JSONPatch != nil {
		return "jsonPatch.expression"
	}
	return "applyConfiguration.expression"
}

// explain adds the evaluation of a mutation to the explanation, if one was requested.
func (i *invocation) explain(at location, err error, took time.Duration) {
	if i.decision == nil {
		return
	}
	evaluation := admission.Evaluation{Field: at.String(), Expression: at.program.Text(), Took: took}
	if err != nil {
		evaluation.Message = err.Error()
	}
	i.decision.AddEvaluation(evaluation)
}

// apply evaluates a mutation's expression and replaces the object with the result.
func (m *mutator) apply(i invocation, spec *admissionregistrationv1.Mutation, program *policy.Program) error {
	in, err := m.input(i.resource, i.param.document, i.programs(m.config.Programs).variables)
	if err != nil {
		return err
	}
	budget := policy.Budget(environment.RuntimeBudget)
	value, err := program.Evaluate(m.ctx, in, &budget)
	if err != nil {
		return err
	}
	version := i.resource.Version
	obj, err := m.ObjectIn(m.ctx, version.GVK)
	if err != nil {
		return err
	}
	current, ok := obj.(codec.Object)
	if !ok {
		return fmt.Errorf("cannot modify a %T", obj)
	}
	var made codec.Object
	if spec.PatchType == admissionregistrationv1.PatchTypeJSONPatch {
		made, err = applyPatch(version, current, value)
	} else {
		made, err = applyConfiguration(version, m.config.converter(i.resource), current, value)
	}
	if err != nil || made == nil {
		return err
	}
	if err := m.SetObjectIn(m.ctx, version.GVK, made); err != nil {
		return err
	}
	m.invalidate()
	return nil
}

// misconfigured records that a policy or binding is invalid. It rejects the request unless the failure policy
// is Ignore.
func (m *mutator) misconfigured(d *definition, binding string, err error) {
	m.startDecision(d.name, binding, types.NamespacedName{}).End(err)
	if !d.ignore {
		m.rejections = append(m.rejections, rejection{policy: d.name, binding: binding, message: err.Error()})
	}
}

// reject records that a policy rejects the request, unless the failure policy is Ignore.
func (m *mutator) reject(i invocation, at location, err error) {
	if i.ignore {
		return
	}
	m.rejections = append(m.rejections, rejection{
		policy: i.name, binding: i.binding.name, param: i.param.name, message: err.Error(), reason: metav1.StatusReasonInvalid, location: at, err: err,
	})
}

// result returns the error for a rejected request, or nil. As in kube-apiserver, its status is always 403, its
// message is that of the first rejection, and its causes are the messages of all rejections.
func (m *mutator) result() error {
	if len(m.rejections) == 0 {
		return nil
	}
	err := m.Forbidden(errors.New("admission request denied by policy"))
	for i, r := range m.rejections {
		message := fmt.Sprintf("policy '%s' denied request: %s", r.policy, r.message)
		if r.binding != "" {
			message = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", r.policy, r.binding, r.message)
		}
		if i == 0 {
			err.ErrStatus.Message = message
			if r.reason != "" {
				err.ErrStatus.Reason = r.reason
			}
		}
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, r.causes(Mutating{}.Name(), message)...)
	}
	return err
}
