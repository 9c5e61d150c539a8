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

// Mutating is the plugin of MutatingAdmissionPolicies.
type Mutating struct{ *set }

var _ admission.Mutator = Mutating{}

// NewMutating returns the plugin without policies.
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

// Handles implements admission.Plugin. A deletion has no object to modify, but a misconfigured
// policy rejects it, as in kube-apiserver.
func (Mutating) Handles(admission.Operation) bool { return true }

// Mutate implements admission.Mutator. It evaluates all policies, also after a rejection: the
// response lists all rejections.
func (p Mutating) Mutate(ctx context.Context, a *admission.Attributes) error {
	hooks := p.candidates(&a.Request)
	if len(hooks) == 0 {
		return nil
	}
	m := mutation{review: p.config.review(ctx, p.config.subject(a)), config: p.config, runs: p.runsOf(a)}
	if a.Reinvoked() && !apiequality.Semantic.DeepEqual(m.runs.left, a.Object) {
		m.runs.again() // another plugin has changed the object
	}
	for _, i := range m.invocations(hooks) {
		if err := m.invoke(i); err != nil {
			return err
		}
	}
	m.runs.leave(a.Object)
	return m.close()
}

// runsOf returns the state of the first pass.
func (p Mutating) runsOf(a *admission.Attributes) *runs {
	if have, ok := a.State(p).(*runs); ok {
		return have
	}
	made := &runs{done: map[invocationKey]bool{}, due: map[invocationKey]bool{}}
	a.SetState(p, made)
	return made
}

// runs are the invocations that were made and may be made again.
type runs struct {
	// done may be invoked again, and due are to be, where there is a second time.
	done, due map[invocationKey]bool
	// left is the object as this plugin has left it.
	left runtime.Object
}

// again has all be invoked again that were invoked until now.
func (r *runs) again() {
	for key := range r.done {
		r.due[key] = true
	}
	clear(r.done)
}

// leave stores a copy of the object, if it may be compared to decide about reinvocation.
func (r *runs) leave(obj runtime.Object) {
	if r.left = nil; obj != nil && len(r.done) > 0 {
		r.left = obj.DeepCopyObject()
	}
}

// invocation is that of a policy for a binding and one of its parameters.
type invocation struct {
	*definition
	binding *binding
	param   param
	shown   *rest.Resource
	// deciding records the explanation; may be nil.
	deciding *admission.DecisionRecorder
}

type invocationKey struct {
	policy, binding string
	param           types.NamespacedName
}

func (i *invocation) key() invocationKey { return invocationKey{i.name, i.binding.name, i.param.name} }

// mutation is the evaluation of all policies for a request.
type mutation struct {
	*review
	config *Config
	runs   *runs
	denied []refusal
}

// invocations returns the policies and bindings to evaluate, in the order of names.
func (m *mutation) invocations(hooks []*hook) []invocation {
	var list []invocation
	for _, h := range hooks {
		shown, err := h.matcher.Match(m.ctx, m.Subject)
		if err != nil {
			m.misconfigured(h.definition, "", fmt.Errorf("failed to configure policy: %w", err))
			continue
		}
		if shown == nil {
			continue
		}
		for _, b := range h.bindings {
			list = append(list, m.ofBinding(h, b, shown)...)
		}
	}
	return list
}

func (m *mutation) ofBinding(h *hook, b *binding, shown *rest.Resource) []invocation {
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
		list[i] = invocation{definition: h.definition, binding: b, param: params[i], shown: shown}
	}
	return list
}

// invoke applies the mutations of a policy, in order. The error is an API error of which
// the policy is not the reason.
func (m *mutation) invoke(i invocation) error {
	programs := i.programs(m.config.Programs)
	in, err := m.input(i.shown, i.param.document, programs.variables)
	if err != nil {
		return err
	}
	i.deciding = m.decide(i.name, i.binding.name, i.param.name)
	matches, failed, err := programs.conditions.Match(m.ctx, in)
	switch {
	case err != nil:
		i.deciding.End(err)
		m.refuse(i, place{list: "matchConditions"}, err)
		return nil
	case !matches:
		i.deciding.SetUnmet(failed)
		i.deciding.End(nil)
		return nil
	case m.Reinvoked() && !m.runs.due[i.key()]:
		return nil
	}
	changed, err := m.mutateAll(i, programs.mutations)
	i.deciding.End(err)
	if err != nil {
		return err
	}
	if changed {
		m.RecordMutator(fmt.Sprintf("MutatingAdmissionPolicy '%s' with binding '%s'", i.name, i.binding.name))
		m.runs.again()
		m.Reinvoke()
	}
	if i.mutating.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy {
		m.runs.done[i.key()] = true
	}
	return nil
}

// mutateAll applies mutations in their order, and reports whether any changed the object.
// An error is as invoke's.
func (m *mutation) mutateAll(i invocation, programs []*policy.Program) (changed bool, err error) {
	for n, program := range programs {
		did, err := m.mutate(i, n, program)
		if err != nil {
			return changed, err
		}
		changed = changed || did
	}
	return changed, nil
}

// mutate applies the n-th mutation, and reports whether that changed the object. An error
// is as invoke's.
func (m *mutation) mutate(i invocation, n int, program *policy.Program) (bool, error) {
	before, ok := m.Object.(codec.Object)
	if !ok { // a deletion, or the options of a connection
		return false, nil
	}
	written := &i.mutating.Mutations[n]
	began := time.Now()
	err := m.apply(i, written, program)
	took := time.Since(began)
	m.config.Metrics.mutated(i.name, i.binding.name, err, took)
	at := place{"mutations", n, memberOf(written), program}
	i.explain(at, err, took)
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return false, status
	case err != nil:
		m.refuse(i, at, err)
		return false, nil
	}
	return !apiequality.Semantic.DeepEqual(before, m.Object), nil
}

// memberOf returns where a mutation has its expression.
func memberOf(written *admissionregistrationv1.Mutation) string {
	if written.JSONPatch != nil {
		return "jsonPatch.expression"
	}
	return "applyConfiguration.expression"
}

// explain records a mutation for the explanation.
func (i *invocation) explain(at place, err error, took time.Duration) {
	if i.deciding == nil {
		return
	}
	said := admission.Evaluation{Field: at.String(), Expression: at.program.Text(), Took: took}
	if err != nil {
		said.Message = err.Error()
	}
	i.deciding.AddEvaluation(said)
}

// apply evaluates an expression and replaces the object with its result.
func (m *mutation) apply(i invocation, written *admissionregistrationv1.Mutation, program *policy.Program) error {
	in, err := m.input(i.shown, i.param.document, i.programs(m.config.Programs).variables)
	if err != nil {
		return err
	}
	budget := policy.Budget(environment.RuntimeBudget)
	value, err := program.Evaluate(m.ctx, in, &budget)
	if err != nil {
		return err
	}
	version := i.shown.Version
	obj, err := m.ObjectIn(m.ctx, version.GVK)
	if err != nil {
		return err
	}
	current, ok := obj.(codec.Object)
	if !ok {
		return fmt.Errorf("a %T cannot be changed", obj)
	}
	var made codec.Object
	if written.PatchType == admissionregistrationv1.PatchTypeJSONPatch {
		made, err = patched(version, current, value)
	} else {
		made, err = applied(version, m.config.converter(i.shown), current, value)
	}
	if err != nil || made == nil {
		return err
	}
	if err := m.SetObjectIn(m.ctx, version.GVK, made); err != nil {
		return err
	}
	m.changed()
	return nil
}

// misconfigured records an invalid policy or binding.
func (m *mutation) misconfigured(d *definition, binding string, err error) {
	m.decide(d.name, binding, types.NamespacedName{}).End(err)
	if !d.ignore {
		m.denied = append(m.denied, refusal{policy: d.name, binding: binding, message: err.Error()})
	}
}

// refuse records a rejection by a policy, unless its failures are ignored.
func (m *mutation) refuse(i invocation, at place, err error) {
	if i.ignore {
		return
	}
	m.denied = append(m.denied, refusal{
		policy: i.name, binding: i.binding.name, param: i.param.name, message: err.Error(), reason: metav1.StatusReasonInvalid, at: at, err: err,
	})
}

// close returns the response to a rejected request. As in kube-apiserver, its status is always 403,
// its message is that of the first policy, and its causes are the messages of all policies.
func (m *mutation) close() error {
	if len(m.denied) == 0 {
		return nil
	}
	err := m.Forbidden(errors.New("admission request denied by policy"))
	for i, r := range m.denied {
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
