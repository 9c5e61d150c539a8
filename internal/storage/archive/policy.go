package archive

import (
	"fmt"
	"iter"
	"strings"
	"time"
)

// Defaults of a Policy.
const (
	DefaultMaxAge   = 30 * 24 * time.Hour
	DefaultMaxBytes = 1 << 30
)

// Policy specifies how long versions are kept. The newest version of each key is always kept.
type Policy struct {
	// MaxAge is the maximum time since a version was replaced or deleted; 0 selects DefaultMaxAge.
	MaxAge time.Duration
	// Resources contains the rules of individual resources. The key is the part of the storage key between
	// Config.Prefix and the namespace or name, such as "pods" or "example.com/widgets".
	Resources map[string]Rule
	// MaxBytes is the maximum size of the archive on disk; 0 selects DefaultMaxBytes. If it is exceeded, the
	// oldest versions of all resources are deleted first. The newest version of each key is never deleted,
	// although it counts toward the size.
	MaxBytes int64
}

// Rule is the retention of one resource.
type Rule struct {
	// MaxAge is the maximum time since a version was replaced or deleted; 0 selects Policy.MaxAge.
	MaxAge time.Duration
	// MaxVersions is the maximum number of versions of an object; 0 means no limit. If older versions are
	// deleted, earlier states of the resource are incomplete and can no longer be read.
	MaxVersions int
}

func (p Policy) withDefaults() Policy {
	if p.MaxAge == 0 {
		p.MaxAge = DefaultMaxAge
	}
	if p.MaxBytes == 0 {
		p.MaxBytes = DefaultMaxBytes
	}
	return p
}

func (p *Policy) check() error {
	if p.MaxAge < 0 || p.MaxBytes < 0 {
		return fmt.Errorf("the maximum age %s and the maximum size %d of the history cannot be negative", p.MaxAge, p.MaxBytes)
	}
	for resource, rule := range p.Resources {
		if rule.MaxAge < 0 || rule.MaxVersions < 0 {
			return fmt.Errorf("the retention of %s cannot be negative: maximum age %s, %d versions", resource, rule.MaxAge, rule.MaxVersions)
		}
	}
	return nil
}

// rule returns the rule of a resource. The empty resource has the rule of all resources without their own
// rule.
func (p *Policy) rule(resource string) Rule {
	rule := p.Resources[resource]
	if rule.MaxAge == 0 {
		rule.MaxAge = p.MaxAge
	}
	return rule
}

// resourceOf returns the resource of a key if the resource has its own rule, and "" otherwise.
func (a *Archive) resourceOf(key string) string {
	for resource := range a.resourcesOf(key) {
		if _, ok := a.policy.Resources[resource]; ok {
			return resource
		}
	}
	return ""
}

// Resource returns the resource of a key, as in Policy.Resources, if the resource has its own rule, and ""
// otherwise.
func (a *Archive) Resource(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.resourceOf(key)
}

// resourcesOf yields the possible resources of a key: its first segment after the prefix, and its
// first two segments.
func (a *Archive) resourcesOf(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest, ok := strings.CutPrefix(key, a.prefix)
		if !ok {
			return
		}
		first, _, ok := strings.Cut(rest, "/")
		if !ok || !yield(first) {
			return
		}
		if second, _, ok := strings.Cut(rest[len(first)+1:], "/"); ok {
			yield(rest[:len(first)+1+len(second)])
		}
	}
}
