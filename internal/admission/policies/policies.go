// Package policies contains the plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy. It keeps
// policies and bindings in memory, compiles the expressions of a policy at first use, and finds the policies
// that may match a request with one lookup. A policy is in effect by the time its write returns. Parameters are
// read during the evaluation. Messages, order, limits and metric names are the same as in kube-apiserver.
package policies

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Config contains the parts of a control plane that the plugins use. All fields except Metrics are required. A
// Config must not be modified after it has been passed to a plugin.
type Config struct {
	Namespaces match.Namespaces
	// Authorizer evaluates authorization expressions.
	Authorizer authorizer.Authorizer
	// ResourceOf returns the resource of a parameter kind, or nil.
	ResourceOf func(schema.GroupVersionKind) *rest.Resource
	// TypeConverter contains the merge schemas of the built-in kinds.
	TypeConverter managedfields.TypeConverter
	// Programs caches compiled expressions. Other components may share the cache.
	Programs *policy.Programs
	Metrics  *Metrics // nil disables metrics
	Logger   *slog.Logger
}

// The resources of policies.
const (
	validatingPolicies = "validatingadmissionpolicies"
	mutatingPolicies   = "mutatingadmissionpolicies"
)

// policySet contains the policies of one kind and their bindings.
type policySet struct {
	config             *Config
	resource           string // name of the policy resource
	policies, bindings follower

	// index is nil after policies or bindings have changed. It is written under mu, which also guards the
	// fields below.
	index atomic.Pointer[match.Index[*boundPolicy]]
	// staticIndex contains only the policies from files, which are the only ones that apply to admission
	// configuration.
	staticIndex atomic.Pointer[match.Index[*boundPolicy]]
	mu          sync.Mutex
	// stored contains the API objects, and static contains the objects from files.
	stored, static objects
	// parse converts objects from files.
	parse func([]codec.Object) objects
}

// objects are policies and bindings by name.
type objects struct {
	policies map[string]*definition
	bindings map[string]*binding
}

// follower is a reflector.Objects of any type.
type follower interface {
	Reflector(reflector.Collection, *reflector.Metrics) (*reflector.Reflector, error)
	Written(*codec.Record) error
	Deleted(types.NamespacedName, int64)
}

// definition is a policy and its expressions, which are compiled at first use.
type definition struct {
	name       string
	matcher    *match.Matcher
	paramKind  *admissionregistrationv1.ParamKind
	ignore     bool // failure policy Ignore
	conditions []admissionregistrationv1.MatchCondition
	variables  []admissionregistrationv1.Variable
	// Exactly one of validating and mutating is set.
	validating *admissionregistrationv1.ValidatingAdmissionPolicySpec
	mutating   *admissionregistrationv1.MutatingAdmissionPolicySpec

	compile  sync.Once
	compiled compiled
}

// binding is a binding of a policy.
type binding struct {
	name, policy string
	matcher      *match.Matcher
	paramRef     *admissionregistrationv1.ParamRef
	actions      []admissionregistrationv1.ValidationAction
}

// boundPolicy is a policy with its bindings, which are sorted by name.
type boundPolicy struct {
	*definition
	bindings []*binding
}

// Matcher implements match.Matchable.
func (h *boundPolicy) Matcher() *match.Matcher { return h.matcher }

func ignores(failure *admissionregistrationv1.FailurePolicyType) bool {
	return failure != nil && *failure == admissionregistrationv1.Ignore
}

func newSet[P, B codec.Object](config *Config, resource string, newPolicy func(P) *definition, newBinding func(B) *binding) *policySet {
	s := &policySet{config: config, resource: resource, stored: newObjects()}
	s.parse = func(all []codec.Object) objects {
		made := newObjects()
		for _, obj := range all {
			switch obj := obj.(type) {
			case P:
				made.policies[obj.GetName()] = newPolicy(obj)
			case B:
				made.bindings[obj.GetName()] = newBinding(obj)
			}
		}
		return made
	}
	s.policies = follow(s, resource, s.stored.policies, newPolicy)
	s.bindings = follow(s, bindingsOf(resource), s.stored.bindings, newBinding)
	return s
}

func newObjects() objects {
	return objects{policies: map[string]*definition{}, bindings: map[string]*binding{}}
}

// follow returns a reflector consumer that updates known, which s.mu guards.
func follow[T codec.Object, K any](s *policySet, name string, known map[string]K, make func(T) K) follower {
	return reflector.NewObjects(reflector.ObjectsConfig[T]{
		Name: name, Logger: s.config.Logger,
		Set: func(obj T) {
			made := make(obj)
			s.update(func() { known[obj.GetName()] = made })
		},
		Remove: func(name types.NamespacedName) { s.update(func() { delete(known, name.Name) }) },
		Done:   func() {},
	})
}

func (s *policySet) update(make func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	make()
	s.index.Store(nil)
}

// Resources returns the resources for which the plugin requires a reflector: its policies and their bindings.
func (s *policySet) Resources() [2]schema.GroupResource {
	return [2]schema.GroupResource{
		{Group: admissionregistrationv1.GroupName, Resource: s.resource}, {Group: admissionregistrationv1.GroupName, Resource: bindingsOf(s.resource)},
	}
}

// bindingsOf returns the name of the binding resource for a policy resource.
func bindingsOf(policies string) string {
	return strings.TrimSuffix(policies, "policies") + "policybindings"
}

// followerOf returns the reflector consumer for one of the resources that Resources returns.
func (s *policySet) followerOf(resource schema.GroupResource) follower {
	if resource.Resource == s.resource {
		return s.policies
	}
	return s.bindings
}

// Reflector returns a reflector that updates the plugin when objects of a resource change. The resource must be
// one of those that Resources returns. The caller runs the reflector. metrics may be nil. Reflector returns an
// error if the configuration of the reflector is invalid.
func (s *policySet) Reflector(resource schema.GroupResource, collection reflector.Collection, metrics *reflector.Metrics) (*reflector.Reflector, error) {
	return s.followerOf(resource).Reflector(collection, metrics)
}

// Observer returns an observer of writes to a resource, which must be one of those that Resources returns. With
// the observer, a policy is in effect by the time its write returns.
func (s *policySet) Observer(resource schema.GroupResource) *storage.Observer {
	return &storage.Observer{Written: s.followerOf(resource).Written, Deleted: s.followerOf(resource).Deleted}
}

// SetStatic replaces the policies and bindings that were read from files. It retains the objects. It is safe to
// call while requests are being admitted.
func (s *policySet) SetStatic(all []codec.Object) {
	static := s.parse(all)
	s.update(func() {
		s.static = static
		s.staticIndex.Store(match.NewIndex(static.boundPolicies()))
	})
}

// candidates returns the bound policies that may match a request. For admission configuration, it returns only
// policies from files. It returns none for authentication and authorization reviews.
func (s *policySet) candidates(r *admission.Request) []*boundPolicy {
	if match.IsReview(r) {
		return nil
	}
	if !match.IsConfiguration(r) {
		return s.currentIndex().Candidates(r)
	}
	if static := s.staticIndex.Load(); static != nil {
		return static.Candidates(r)
	}
	return nil
}

// currentIndex returns the index. It first rebuilds the index if policies or bindings have changed.
func (s *policySet) currentIndex() *match.Index[*boundPolicy] {
	if made := s.index.Load(); made != nil {
		return made
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.index.Load()
	if made == nil {
		made = match.NewIndex(append(s.static.boundPolicies(), s.stored.boundPolicies()...))
		s.index.Store(made)
	}
	return made
}

// boundPolicies returns the policies with their bindings, sorted by name. It omits policies without bindings,
// because they have no effect.
func (o *objects) boundPolicies() []*boundPolicy {
	of := make(map[string][]*binding, len(o.policies))
	for _, name := range slices.Sorted(maps.Keys(o.bindings)) {
		b := o.bindings[name]
		of[b.policy] = append(of[b.policy], b)
	}
	var policies []*boundPolicy
	for _, name := range slices.Sorted(maps.Keys(o.policies)) {
		if bound := of[name]; len(bound) > 0 {
			policies = append(policies, &boundPolicy{o.policies[name], bound})
		}
	}
	return policies
}
