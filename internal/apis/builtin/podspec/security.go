package podspec

import (
	"math"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// This file validates security contexts.

const notByPolicy = "disallowed by cluster policy"

func (c *container) validateSecurityContext(f validation.Field) {
	sc := c.SecurityContext
	if sc == nil {
		return
	}
	privileged := sc.Privileged != nil && *sc.Privileged
	if privileged && f.DenyPrivileged() {
		f.Child("privileged").Forbidden(notByPolicy)
	}
	validateID(f.Child("runAsUser"), sc.RunAsUser)
	validateID(f.Child("runAsGroup"), sc.RunAsGroup)
	if mount := sc.ProcMount; mount != nil {
		validation.OneOf(f.Child("procMount"), *mount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if *mount == corev1.UnmaskedProcMount && hasHostUsers(c.pod.spec) {
			f.Child("procMount").Invalid(*mount, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	validateSeccomp(f.Child("seccompProfile"), sc.SeccompProfile)
	validateAppArmor(f.Child("appArmorProfile"), sc.AppArmorProfile)
	validateWindowsOptions(f.Child("windowsOptions"), sc.WindowsOptions)
	if sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation {
		return
	}
	if privileged {
		f.Invalid(sc, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	if sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN") {
		f.Invalid(sc, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
	}
}

// validateID requires that a user or group ID fits in 31 bits.
func validateID(f validation.Field, id *int64) {
	if id != nil {
		f.Between(*id, 0, math.MaxInt32)
	}
}

func validateSeccomp(f validation.Field, profile *corev1.SeccompProfile) {
	if profile == nil {
		return
	}
	if profile.Type == "" {
		f.Child("type").Required("type is required when seccompProfile is set")
	} else {
		validation.OneOf(f.Child("type"), profile.Type,
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	switch at := f.Child("localhostProfile"); {
	case profile.Type != corev1.SeccompProfileTypeLocalhost:
		if profile.LocalhostProfile != nil {
			at.Invalid(profile, "can only be set when seccomp type is Localhost")
		}
	case profile.LocalhostProfile == nil:
		at.Required("must be set when seccomp type is Localhost")
	default:
		validateDescending(at, *profile.LocalhostProfile)
	}
}

// maxAppArmorProfile is the maximum length of a Linux path, without the terminating zero byte.
const maxAppArmorProfile = 4095

func validateAppArmor(f validation.Field, profile *corev1.AppArmorProfile) {
	if profile == nil {
		return
	}
	at := f.Child("localhostProfile")
	switch profile.Type {
	case "":
		f.Child("type").Required("type is required when appArmorProfile is set")
	case corev1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile == nil {
			at.Required("must be set when AppArmor type is Localhost")
			return
		}
		validateAppArmorPath(at, *profile.LocalhostProfile)
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if profile.LocalhostProfile != nil {
			at.Invalid(*profile.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	default:
		validation.NotSupported(f.Child("type"), profile.Type, corev1.AppArmorProfileTypeLocalhost,
			corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	}
}

func validateAppArmorPath(f validation.Field, path string) {
	if trimmed := strings.TrimSpace(path); trimmed != path {
		f.Invalid(path, "must not be padded with whitespace")
	} else if path == "" {
		f.Required("must be set when AppArmor type is Localhost")
	}
	if len(path) > maxAppArmorProfile {
		f.TooLong(maxAppArmorProfile)
	}
}

func (p *pod) validateSecurity(f validation.Field) {
	p.validateHostProcesses(f)
	at, sc := f.Child("securityContext"), p.spec.SecurityContext
	if share := p.spec.ShareProcessNamespace; share != nil && *share && p.spec.HostPID {
		at.Child("shareProcessNamespace").Invalid(*share, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	if sc == nil {
		return
	}
	validateID(at.Child("fsGroup"), sc.FSGroup)
	validateID(at.Child("runAsUser"), sc.RunAsUser)
	validateID(at.Child("runAsGroup"), sc.RunAsGroup)
	for i, group := range sc.SupplementalGroups {
		at.Child("supplementalGroups").Index(i).Between(group, 0, math.MaxInt32)
	}
	p.validateSysctls(at.Child("sysctls"))
	if policy := sc.FSGroupChangePolicy; policy != nil {
		validation.OneOf(at.Child("fsGroupChangePolicy"), *policy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	if policy := sc.SupplementalGroupsPolicy; policy != nil {
		validation.OneOf(at.Child("supplementalGroupsPolicy"), *policy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	p.validateSELinuxChangePolicy(at.Child("seLinuxChangePolicy"), sc.SELinuxChangePolicy)
	validateSeccomp(at.Child("seccompProfile"), sc.SeccompProfile)
	validateAppArmor(at.Child("appArmorProfile"), sc.AppArmorProfile)
	validateWindowsOptions(at.Child("windowsOptions"), sc.WindowsOptions)
}

// validateSELinuxChangePolicy validates the SELinux change policy. If the feature gate SELinuxMount is
// disabled, the only valid policy is Recursive, unless the old pod already has a policy.
func (p *pod) validateSELinuxChangePolicy(f validation.Field, policy *corev1.PodSELinuxChangePolicy) {
	had := p.old != nil && p.old.SecurityContext != nil && p.old.SecurityContext.SELinuxChangePolicy != nil
	switch {
	case policy == nil:
	case had || f.Enabled(feature.SELinuxMount):
		validation.OneOf(f, *policy, corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)
	default:
		validation.OneOf(f, *policy, corev1.SELinuxChangePolicyRecursive)
	}
}

const (
	maxSysctl     = 253
	sysctlPattern = `^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`
)

// validateSysctls validates sysctls. Dots and slashes in sysctl names are equivalent.
func (p *pod) validateSysctls(f validation.Field) {
	sysctls := p.spec.SecurityContext.Sysctls
	ofNode := p.old != nil && hasNodeSysctls(p.old) // stored pods may have sysctls of the node
	names := validation.NewDuplicates[string](len(sysctls))
	for i := range sysctls {
		name, at := sysctls[i].Name, f.Index(i).Child("name")
		if name == "" {
			at.Required("")
			continue
		}
		if !isSysctl(name) {
			at.Invalid(name, "must have at most 253 characters and match regex "+sysctlPattern)
			continue
		}
		name = strings.ReplaceAll(name, "/", ".")
		if names.IsDuplicate(name) {
			at.Duplicate(sysctls[i].Name)
		}
		if namespace := nodeNamespace(p.spec, name); namespace != "" && !ofNode {
			at.Invalid(sysctls[i].Name, "may not be specified when '"+namespace+"' is true")
		}
	}
}

// nodeNamespace returns the name of the field because of which a sysctl affects the whole node, or "" if the
// sysctl affects only the pod. The separators in sysctl must be dots.
func nodeNamespace(spec *corev1.PodSpec, sysctl string) string {
	switch {
	case spec.HostNetwork && strings.HasPrefix(sysctl, "net."):
		return "hostNetwork"
	case spec.HostIPC && isIPCSysctl(sysctl):
		return "hostIPC"
	}
	return ""
}

func hasNodeSysctls(spec *corev1.PodSpec) bool {
	return spec.SecurityContext != nil && slices.ContainsFunc(spec.SecurityContext.Sysctls, func(s corev1.Sysctl) bool {
		return nodeNamespace(spec, strings.ReplaceAll(s.Name, "/", ".")) != ""
	})
}

func isSysctl(name string) bool {
	if len(name) > maxSysctl {
		return false
	}
	between := true
	for i := range len(name) {
		switch c := name[i]; {
		case isAlphanumeric(c):
			between = false
		case between || c != '-' && c != '_' && c != '.' && c != '/':
			return false
		case c == '.' || c == '/':
			if !isAlphanumeric(name[i-1]) {
				return false
			}
			between = true
		}
	}
	return !between && isAlphanumeric(name[len(name)-1])
}

func isIPCSysctl(name string) bool {
	return name == "kernel.sem" || strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") ||
		strings.HasPrefix(name, "fs.mqueue.")
}

// validateHostUsers rejects host namespaces and block devices in a pod that has its own user namespace.
func (p *pod) validateHostUsers(f validation.Field) {
	if hasHostUsers(p.spec) {
		return
	}
	const reason = "when `hostUsers` is false"
	if p.spec.HostNetwork && !f.Enabled(feature.UserNamespacesHostNetworkSupport) &&
		(p.old == nil || !p.old.HostNetwork || hasHostUsers(p.old)) {
		f.Child("hostNetwork").Forbidden(reason)
	}
	if p.spec.HostPID {
		f.Child("HostPID").Forbidden(reason)
	}
	if p.spec.HostIPC {
		f.Child("HostIPC").Forbidden(reason)
	}
	if p.old != nil && !hasHostUsers(p.old) && hasDevices(p.old) {
		return // stored pods may have devices
	}
	p.eachContainer(f, func(at validation.Field, c *corev1.Container) {
		if len(c.VolumeDevices) > 0 {
			at.Child("volumeDevices").Forbidden(reason)
		}
	})
}

func hasDevices(spec *corev1.PodSpec) (has bool) {
	eachContainer(spec, func(c *corev1.Container) { has = has || len(c.VolumeDevices) > 0 })
	return has
}

// Limits for Windows user names and credential specs.
const (
	maxGMSASpec      = 64 << 10
	maxWindowsDomain = 256
	maxWindowsUser   = 104
)

func validateWindowsOptions(f validation.Field, options *corev1.WindowsSecurityContextOptions) {
	if options == nil {
		return
	}
	if name := options.GMSACredentialSpecName; name != nil {
		f.Child("gmsaCredentialSpecName").DNSSubdomain(*name)
	}
	if spec := options.GMSACredentialSpec; spec != nil {
		if *spec == "" {
			f.Child("gmsaCredentialSpec").Invalid(*spec, "gmsaCredentialSpec cannot be an empty string")
		} else if len(*spec) > maxGMSASpec {
			f.Child("gmsaCredentialSpec").Invalid(*spec, "gmsaCredentialSpec size must be under 64 KiB")
		}
	}
	if user := options.RunAsUserName; user != nil {
		validateWindowsUser(f.Child("runAsUserName"), *user)
	}
}

func validateWindowsUser(f validation.Field, name string) {
	if name == "" {
		f.Invalid(name, "runAsUserName cannot be an empty string")
		return
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		f.Invalid(name, "runAsUserName cannot contain control characters")
	}
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		domain, user = "", name
	}
	switch {
	case strings.Contains(user, `\`):
		f.Invalid(name, `runAsUserName can contain at most one backslash`)
		return
	case hasDomain && domain == "":
		f.Invalid(name, "runAsUserName's Domain cannot be empty")
	case len(domain) >= maxWindowsDomain:
		f.Invalid(name, "runAsUserName's Domain length must be under 256 characters")
	}
	switch {
	case user == "":
		f.Invalid(name, "runAsUserName's User cannot be empty")
	case len(user) > maxWindowsUser:
		f.Invalid(name, "runAsUserName's User length must not be longer than 104 characters")
	case regexp.MustCompile(`["/\\:;|=,+*?<>@\[\]]`).MatchString(user):
		f.Invalid(name, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
}
