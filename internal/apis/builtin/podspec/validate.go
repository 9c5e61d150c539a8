package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Options specifies how the validation of pods differs from that of pod templates.
type Options struct {
	// Pod specifies that the spec belongs to a pod, not to a pod template. A template may omit fields that are
	// set when a pod is created from it.
	Pod bool
	// Name is the name of the pod. The names of some other objects are derived from it.
	Name string
}

// Validate validates the spec of a pod or template. old is nil on creation.
func Validate(f validation.Field, spec, old *corev1.PodSpec, options Options) {
	p := pod{spec: spec, old: old, options: options, restartedAll: old != nil && RestartsAllContainers(old)}
	p.validateVolumes(f.Child("volumes"))
	p.validateClaims(f.Child("resourceClaims"))
	p.validateContainers(f)
	p.validateLifetime(f)
	p.validateDNS(f)
	p.validateNames(f)
	p.validateSecurity(f)
	p.validateHostUsers(f)
	p.validateOS(f)
	p.validateScheduling(f)
	p.validateSchedulingGroup(f.Child("schedulingGroup"))
	p.validateEvictionResponders(f)
	p.validatePodResources(f)
	p.validateHugePages(f)
}

// pod is a pod spec that is being validated, with state that several rules share.
type pod struct {
	spec, old    *corev1.PodSpec // old may be nil
	options      Options
	volumes      volumeIndex
	claims       validation.Duplicates[string] // names of the resource claims that containers may use
	restartedAll bool                          // whether old contains a rule that restarts all containers
	// unknownClaimText is the cached result of unknownClaim, or "" before the first call.
	unknownClaimText string
}

// restartable reports whether an init container is a sidecar.
func restartable(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// hasHostUsers reports whether the pod uses the node's user namespace.
func hasHostUsers(spec *corev1.PodSpec) bool { return spec.HostUsers == nil || *spec.HostUsers }

// validateLifetime validates the restart policy, the active deadline and the grace period.
func (p *pod) validateLifetime(f validation.Field) {
	policy, at := p.spec.RestartPolicy, f.Child("restartPolicy")
	if policy == "" {
		at.Required("")
	} else {
		validation.OneOf(at, policy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	}
	if seconds := p.spec.ActiveDeadlineSeconds; seconds != nil {
		f.Child("activeDeadlineSeconds").Between(*seconds, 1, math.MaxInt32)
	}
}

// validateNames validates the host name and the references to other objects.
func (p *pod) validateNames(f validation.Field) {
	for _, name := range [...]struct {
		field, value string
		rule         func(validation.Field, string)
	}{
		{"serviceAccountName", p.spec.ServiceAccountName, validation.Field.DNSSubdomain},
		{"nodeName", p.spec.NodeName, validation.Field.DNSSubdomain},
		{"priorityClassName", p.spec.PriorityClassName, validation.Field.DNSSubdomain},
		{"hostname", p.spec.Hostname, validation.Field.DNSLabel},
		{"subdomain", p.spec.Subdomain, validation.Field.DNSLabel},
	} {
		if name.value != "" {
			name.rule(f.Child(name.field), name.value)
		}
	}
	if class := p.spec.RuntimeClassName; class != nil {
		f.Child("runtimeClassName").DNSSubdomain(*class)
	}
	if policy := p.spec.PreemptionPolicy; policy != nil && *policy == "" {
		f.Child("preemptionPolicy").Required("")
	} else if policy != nil {
		validation.OneOf(f.Child("preemptionPolicy"), *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	p.validateHostname(f)
	p.validateHostAliases(f.Child("hostAliases"))
}

// maxHostname is the maximum length of a host name on Linux.
const maxHostname = 64

func (p *pod) validateHostname(f validation.Field) {
	name, at := p.spec.HostnameOverride, f.Child("hostnameOverride")
	if name == nil {
		return
	}
	if p.spec.HostNetwork {
		at.Forbidden("may not be specified when hostNetwork is true")
	}
	if fqdn := p.spec.SetHostnameAsFQDN; fqdn != nil && *fqdn {
		at.Forbidden("may not be specified when setHostnameAsFQDN is true")
	}
	if len(*name) > maxHostname {
		at.TooLong(maxHostname)
	}
	at.DNSSubdomain(*name)
}

func (p *pod) validateHostAliases(f validation.Field) {
	for i := range p.spec.HostAliases {
		alias, at := &p.spec.HostAliases[i], f.Index(i)
		if p.old == nil || i >= len(p.old.HostAliases) || p.old.HostAliases[i].IP != alias.IP {
			at.Child("ip").IP(alias.IP)
		}
		for j, name := range alias.Hostnames {
			at.Child("hostnames").Index(j).DNSSubdomain(name)
		}
	}
}
