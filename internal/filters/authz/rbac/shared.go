package rbac

import (
	"slices"
	"strings"
	"sync"
)

// maxShared is the maximum number of shared roles, and of shared bindings. There are about 80 default roles and 70 default bindings.
const maxShared = 256

// Shared contains the names and compiled rules of roles, and the bindings, that are equal for many Authorizers, such
// as the default roles. The first ones that are added are shared. The zero value is empty. It is safe for concurrent use.
type Shared struct {
	mu       sync.Mutex
	roles    map[roleKey]sharedRole
	bindings map[roleKey]*bindingSpec
}

type sharedRole struct {
	key roleKey
	set *ruleSet
}

// role returns the key of a role, and the set of its rules, which it may share. The result does not share memory with key. It
// may retain rules. A nil *Shared shares nothing.
func (s *Shared) role(key roleKey, rules []rule) (roleKey, *ruleSet) {
	if s == nil {
		return key.clone(), newRuleSet(rules)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.roles[key]
	if found && slices.Equal(known.set.rules, rules) {
		return known.key, known.set
	}
	own := sharedRole{key.clone(), newRuleSet(rules)}
	if !found && len(s.roles) < maxShared {
		if s.roles == nil {
			s.roles = map[roleKey]sharedRole{}
		}
		s.roles[own.key] = own
	}
	return own.key, own.set
}

// binding returns an equal binding, which it may share, or own, of which it takes ownership. The result does not retain the
// stored object of own. A nil *Shared shares nothing.
func (s *Shared) binding(own *bindingSpec) *bindingSpec {
	if s == nil {
		own.detach()
		return own
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.bindings[own.key()]
	if found && known.equal(own) {
		return known
	}
	own.detach()
	if !found && len(s.bindings) < maxShared {
		if s.bindings == nil {
			s.bindings = map[roleKey]*bindingSpec{}
		}
		s.bindings[own.key()] = own
	}
	return own
}

func (s *bindingSpec) equal(other *bindingSpec) bool {
	return s.key() == other.key() && s.roleRef == other.roleRef && slices.Equal(s.subjects, other.subjects)
}

// detach copies the names, which are substrings of the stored object, so that s does not retain the object.
func (s *bindingSpec) detach() {
	key := s.key().clone()
	s.namespace, s.name, s.roleRef = key.namespace, key.name, s.roleRef.clone()
	for i := range s.subjects {
		s.subjects[i].name = strings.Clone(s.subjects[i].name)
	}
}

func (k roleKey) clone() roleKey { return roleKey{strings.Clone(k.namespace), strings.Clone(k.name)} }
