// Package policies contains the plugins ValidatingAdmissionPolicy and MutatingAdmissionPolicy. It
// keeps policies and bindings in memory, compiles the expressions of a policy at first use, and
// finds the matching policies of a request with one lookup. Writes are in effect when they return;
// parameters are read during the evaluation. Messages, order, limits and metric names are those of
// kube-apiserver.
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

// Config contains the dependencies of the policies on their control plane.
type Config struct {
	Namespaces match.Namespaces
	// Authorizer evaluates authorization expressions.
	Authorizer authorizer.Authorizer
	// ResourceOf returns the resource of a parameter kind, or nil.
	ResourceOf func(schema.GroupVersionKind) *rest.Resource
	// TypeConverter has the merge schemas of built-in kinds.
	TypeConverter managedfields.TypeConverter
	// Programs shares compiled expressions with others.
	Programs *policy.Programs
	Metrics  *Metrics // nil disables metrics
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

	// index is nil after a change. It is written under mu, which also guards the following fields.
	index atomic.Pointer[match.Index[*hook]]
	// staticIndex contains the policies of files, the only ones that apply to admission
	// configuration.
	staticIndex atomic.Pointer[match.Index[*hook]]
	mu          sync.Mutex
	// known are the stored objects, static those of files.
	known, static objects
	// read converts objects of the API.
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

// follow updates known, which s guards, with the changes of a collection.
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

// of returns the follower of one of Resources.
func (s *set) of(resource schema.GroupResource) follower {
	if resource.Resource == s.resource {
		return s.policies
	}
	return s.bindings
}

// Reflector returns the reflector of one of Resources.
func (s *set) Reflector(resource schema.GroupResource, collection reflector.Collection, metrics *reflector.Metrics) (*reflector.Reflector, error) {
	return s.of(resource).Reflector(collection, metrics)
}

// Observer returns the observer of writes of one of Resources, which makes them effective before
// they return.
func (s *set) Observer(resource schema.GroupResource) *storage.Observer {
	return &storage.Observer{Written: s.of(resource).Written, Deleted: s.of(resource).Deleted}
}

// SetStatic replaces the policies and bindings of files.
func (s *set) SetStatic(all []codec.Object) {
	static := s.read(all)
	s.change(func() {
		s.static = static
		s.staticIndex.Store(match.NewIndex(static.hooks()))
	})
}

// candidates returns the policies with bindings that may match a request. Only policies of files
// apply to admission configuration.
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

// current returns the index, which it rebuilds after a change.
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
