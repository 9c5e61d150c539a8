// Package policies has the admission plugins of policies: ValidatingAdmissionPolicy
// and MutatingAdmissionPolicy. It keeps policies and bindings in memory, each policy's
// expressions compiled when a request first needs them, and finds those that a request is
// about by one look-up. What is written is in effect when its writer has the answer, and
// parameters are read when they are needed.
//
// Words, orders, limits and names of metrics are kube-apiserver's.
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

// Config is what policies need of the control plane that they are in.
type Config struct {
	Namespaces match.Namespaces
	// Authorizer answers expressions that ask what users may do.
	Authorizer authorizer.Authorizer
	// ResourceOf returns the resource of a kind, of which parameters are read; nil
	// where there is none.
	ResourceOf func(schema.GroupVersionKind) *rest.Resource
	// TypeConverter has the merge schemas of built-in kinds.
	TypeConverter managedfields.TypeConverter
	// Programs shares compiled expressions with others.
	Programs *policy.Programs
	Metrics  *Metrics // nil counts nothing
	Logger   *slog.Logger
}

// Resources of policies.
const (
	validatingPolicies = "validatingadmissionpolicies"
	mutatingPolicies   = "mutatingadmissionpolicies"
)

// set are the policies of one sort with their bindings.
type set struct {
	config             *Config
	resource           string // of the policies
	policies, bindings follower

	// index is nil when something has changed since it was made. It is written under
	// mu, which guards what follows too.
	index atomic.Pointer[match.Index[*hook]]
	// staticIndex has the policies of files: they alone are asked about what configures
	// admission.
	staticIndex atomic.Pointer[match.Index[*hook]]
	mu          sync.Mutex
	// known are stored, and static those of files.
	known, static objects
	// read returns what objects of the API are.
	read func([]codec.Object) objects
}

// objects are policies and bindings, by their names.
type objects struct {
	policies map[string]*definition
	bindings map[string]*binding
}

// follower is a reflector.Objects.
type follower interface {
	Reflector(reflector.Collection, *reflector.Metrics) (*reflector.Reflector, error)
	Written(*codec.Record) error
	Deleted(types.NamespacedName, int64)
}

// definition is a policy.
type definition struct {
	name       string
	matcher    *match.Matcher
	paramKind  *admissionregistrationv1.ParamKind
	ignore     bool // its errors
	conditions []admissionregistrationv1.MatchCondition
	variables  []admissionregistrationv1.Variable
	// One of the following is set.
	validating *admissionregistrationv1.ValidatingAdmissionPolicySpec
	mutating   *admissionregistrationv1.MutatingAdmissionPolicySpec

	compile  sync.Once
	compiled compiled
}

// binding puts a policy into effect.
type binding struct {
	name, policy string
	matcher      *match.Matcher
	paramRef     *admissionregistrationv1.ParamRef
	actions      []admissionregistrationv1.ValidationAction
}

// hook is a policy with its bindings, in the order of their names.
type hook struct {
	*definition
	bindings []*binding
}

// Matcher implements match.Matching.
func (h *hook) Matcher() *match.Matcher { return h.matcher }

func ignores(failure *admissionregistrationv1.FailurePolicyType) bool {
	return failure != nil && *failure == admissionregistrationv1.Ignore
}

func newSet[P, B codec.Object](config *Config, resource string, newPolicy func(P) *definition, newBinding func(B) *binding) *set {
	s := &set{config: config, resource: resource, known: newObjects()}
	s.read = func(all []codec.Object) objects {
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
	s.policies = follow(s, resource, s.known.policies, newPolicy)
	s.bindings = follow(s, bindingsOf(resource), s.known.bindings, newBinding)
	return s
}

func newObjects() objects {
	return objects{policies: map[string]*definition{}, bindings: map[string]*binding{}}
}

// follow keeps known, which s guards, up to date with objects.
func follow[T codec.Object, K any](s *set, name string, known map[string]K, make func(T) K) follower {
	return reflector.NewObjects(reflector.ObjectsConfig[T]{
		Name: name, Logger: s.config.Logger,
		Set: func(obj T) {
			made := make(obj)
			s.change(func() { known[obj.GetName()] = made })
		},
		Remove: func(name types.NamespacedName) { s.change(func() { delete(known, name.Name) }) },
		Done:   func() {},
	})
}

func (s *set) change(make func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	make()
	s.index.Store(nil)
}

// Resources are the resources that the plugin follows: policies, and their bindings.
func (s *set) Resources() [2]schema.GroupResource {
	return [2]schema.GroupResource{
		{Group: admissionregistrationv1.GroupName, Resource: s.resource}, {Group: admissionregistrationv1.GroupName, Resource: bindingsOf(s.resource)},
	}
}

// bindingsOf returns the resource of the bindings of policies.
func bindingsOf(policies string) string {
	return strings.TrimSuffix(policies, "policies") + "policybindings"
}

// of returns what tells of one of Resources.
func (s *set) of(resource schema.GroupResource) follower {
	if resource.Resource == s.resource {
		return s.policies
	}
	return s.bindings
}

// Reflector returns what keeps the plugin up to date with one of Resources.
func (s *set) Reflector(resource schema.GroupResource, collection reflector.Collection, metrics *reflector.Metrics) (*reflector.Reflector, error) {
	return s.of(resource).Reflector(collection, metrics)
}

// Observer returns what is told of the writes of one of Resources, so that they are in
// effect when they are answered.
func (s *set) Observer(resource schema.GroupResource) *storage.Observer {
	return &storage.Observer{Written: s.of(resource).Written, Deleted: s.of(resource).Deleted}
}

// SetStatic puts the policies and bindings of files into effect, in place of those before.
func (s *set) SetStatic(all []codec.Object) {
	static := s.read(all)
	s.change(func() {
		s.static = static
		s.staticIndex.Store(match.NewIndex(static.hooks()))
	})
}

// candidates returns the policies with bindings that may be about a request. What
// configures admission is the business of those of files alone.
func (s *set) candidates(r *admission.Request) []*hook {
	if match.IsReview(r) {
		return nil
	}
	if !match.IsConfiguration(r) {
		return s.current().Candidates(r)
	}
	if static := s.staticIndex.Load(); static != nil {
		return static.Candidates(r)
	}
	return nil
}

// current returns the index, made anew where something has changed.
func (s *set) current() *match.Index[*hook] {
	if made := s.index.Load(); made != nil {
		return made
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.index.Load()
	if made == nil {
		made = match.NewIndex(append(s.static.hooks(), s.known.hooks()...))
		s.index.Store(made)
	}
	return made
}

// hooks returns policies with their bindings, in the order of names. A policy without any
// has no effect.
func (o *objects) hooks() []*hook {
	of := make(map[string][]*binding, len(o.policies))
	for _, name := range slices.Sorted(maps.Keys(o.bindings)) {
		b := o.bindings[name]
		of[b.policy] = append(of[b.policy], b)
	}
	var hooks []*hook
	for _, name := range slices.Sorted(maps.Keys(o.policies)) {
		if bound := of[name]; len(bound) > 0 {
			hooks = append(hooks, &hook{o.policies[name], bound})
		}
	}
	return hooks
}
