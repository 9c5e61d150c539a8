package rbac

import (
	"slices"
	"strings"
	"sync"
)

// maxSharedRoles bounds the memory of a SharedRules. There are about 80 default roles.
const maxSharedRoles = 256

// SharedRules contains the compiled rules of roles that are equal for many Authorizers, such as the default roles. The first
// roles that are added are shared. The zero value is empty. It is safe for concurrent use.
type SharedRules struct {
	mu     sync.Mutex
	byRole map[roleKey]*ruleSet
}

// ruleSet returns the set of the rules of a role, which it may share. It may retain rules. A nil *SharedRules shares none.
func (s *SharedRules) ruleSet(key roleKey, rules []rule) *ruleSet {
	if s == nil {
		return newRuleSet(rules)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.byRole[key]
	if known != nil && slices.Equal(known.rules, rules) {
		return known
	}
	set := newRuleSet(rules)
	if known != nil || len(s.byRole) == maxSharedRoles {
		return set
	}
	if s.byRole == nil {
		s.byRole = map[roleKey]*ruleSet{}
	}
	s.byRole[roleKey{strings.Clone(key.namespace), strings.Clone(key.name)}] = set
	return set
}
