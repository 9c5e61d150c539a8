package podspec

import (
	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/core"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// This file validates scheduling groups and eviction responders.

func (p *pod) validateSchedulingGroup(f validation.Field) {
	group := p.spec.SchedulingGroup
	if group == nil {
		return
	}
	if group.PodGroupName == nil {
		f.Required("must specify one of: `podGroupName`")
		return
	}
	f.Child("podGroupName").DNSSubdomain(*group.PodGroupName)
}

// validateEvictionResponders validates eviction responders. It contains the rules that are not declared by
// markers in k8s.io/api, and calls those that are.
func (p *pod) validateEvictionResponders(f validation.Field) {
	if len(p.spec.EvictionResponders) == 0 {
		return
	}
	if p.spec.SchedulingGroup != nil {
		f.Child("evictionResponders").Forbidden("may not be set when schedulingGroup is set")
	}
	validation.ValidateDeclared(f, declared.Validate_PodSpec, p.spec, p.old, "")
}
