package rbac

import (
	"slices"
	"strings"
	"sync"
)

// maxShared is the maximum number of shared roles, and of shared bindings. There are about 80 default roles
// and 70 default bindings.
const maxShared = 256

// Shared contains roles (names and compiled rules) and bindings that many Authorizers have in common, such
// as the default roles. If several roles or bindings have the same name, the first one is shared. The zero
// value is empty. Shared is safe for concurrent use.
type Shared struct {
	mu       sync.Mutex
	roles    map[roleKey]sharedRole
	bindings map[roleKey]*bindingSpec
}

type sharedRole struct {
	key roleKey
	set *ruleSet
}

// role returns the key of a role and the set of its rules. Both may be shared and must not be modified. The
// returned key is a copy, so that it does not retain the stored object to which the argument key belongs. The
// returned set may retain rules. A nil *Shared shares nothing.
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

// binding returns the shared binding that is equal to own, or own if there is no such binding. It takes
// ownership of own. The result may be shared and must not be modified. It does not retain the stored object
// from which own was created. A nil *Shared shares nothing.
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
