package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validateOS rejects fields that do not apply to the pod's operating system.
func (p *pod) validateOS(f validation.Field) {
	if p.spec.OS == nil {
		return
	}
	switch p.spec.OS.Name {
	case "":
		f.Child("os").Child("name").Required("")
	case corev1.Linux:
		p.validateLinux(f)
	case corev1.Windows:
		p.validateWindows(f)
	default:
		validation.NotSupported(f.Child("os"), p.spec.OS.Name, corev1.Linux, corev1.Windows)
	}
}

func (p *pod) validateLinux(f validation.Field) {
	const reason = "windows options cannot be set for a linux pod"
	if sc := p.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		f.Child("securityContext").Child("windowsOptions").Forbidden(reason)
	}
	p.eachContext(f, func(at validation.Field, sc *corev1.SecurityContext) {
		if sc.WindowsOptions != nil {
			at.Child("windowsOptions").Forbidden(reason)
		}
	})
}

// setField names a field and reports whether it is set.
type setField struct {
	name string
	set  bool
}

func forbidSet(f validation.Field, fields ...setField) {
	for _, field := range fields {
		if field.set {
			f.Child(field.name).Forbidden("cannot be set for a windows pod")
		}
	}
}

func (p *pod) validateWindows(f validation.Field) {
	spec := p.spec
	forbidSet(f, setField{"hostUsers", spec.HostUsers != nil}, setField{"hostPID", spec.HostPID}, setField{"hostIPC", spec.HostIPC},
		setField{"shareProcessNamespace", spec.ShareProcessNamespace != nil})
	if spec.Resources != nil {
		f.Child("resources").Forbidden("may not be set for a windows pod")
	}
	if sc := spec.SecurityContext; sc != nil {
		forbidSet(f.Child("securityContext"),
			setField{"appArmorProfile", sc.AppArmorProfile != nil}, setField{"seLinuxOptions", sc.SELinuxOptions != nil},
			setField{"seccompProfile", sc.SeccompProfile != nil}, setField{"fsGroup", sc.FSGroup != nil},
			setField{"fsGroupChangePolicy", sc.FSGroupChangePolicy != nil}, setField{"sysctls", len(sc.Sysctls) > 0},
			setField{"runAsUser", sc.RunAsUser != nil},
			setField{"runAsGroup", sc.RunAsGroup != nil}, setField{"supplementalGroups", sc.SupplementalGroups != nil},
			setField{"supplementalGroupsPolicy", sc.SupplementalGroupsPolicy != nil},
			setField{"seLinuxChangePolicy", sc.SELinuxChangePolicy != nil},
		)
	}
	p.eachContext(f, func(at validation.Field, sc *corev1.SecurityContext) {
		forbidSet(at,
			setField{"appArmorProfile", sc.AppArmorProfile != nil}, setField{"seLinuxOptions", sc.SELinuxOptions != nil},
			setField{"seccompProfile", sc.SeccompProfile != nil}, setField{"capabilities", sc.Capabilities != nil},
			setField{"readOnlyRootFilesystem", sc.ReadOnlyRootFilesystem != nil}, setField{"privileged", sc.Privileged != nil},
			setField{"allowPrivilegeEscalation", sc.AllowPrivilegeEscalation != nil}, setField{"procMount", sc.ProcMount != nil},
			setField{"runAsUser", sc.RunAsUser != nil}, setField{"runAsGroup", sc.RunAsGroup != nil},
		)
	})
}

// eachContext calls a function for each security context of a container.
func (p *pod) eachContext(f validation.Field, call func(validation.Field, *corev1.SecurityContext)) {
	p.eachContainer(f, func(at validation.Field, c *corev1.Container) {
		if c.SecurityContext != nil {
			call(at.Child("securityContext"), c.SecurityContext)
		}
	})
}

func (p *pod) eachContainer(f validation.Field, call func(validation.Field, *corev1.Container)) {
	for i := range p.spec.InitContainers {
		call(f.Child("initContainers").Index(i), &p.spec.InitContainers[i])
	}
	for i := range p.spec.Containers {
		call(f.Child("containers").Index(i), &p.spec.Containers[i])
	}
	for i := range p.spec.EphemeralContainers {
		call(f.Child("ephemeralContainers").Index(i), (*corev1.Container)(&p.spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// validateHostProcesses requires that either all containers of a Windows pod are host processes or none is.
func (p *pod) validateHostProcesses(f validation.Field) {
	var whole *bool
	if sc := p.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		whole = sc.WindowsOptions.HostProcess
	}
	host, other := 0, 0
	p.eachContainer(f, func(at validation.Field, c *corev1.Container) {
		process := whole
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil && sc.WindowsOptions.HostProcess != nil {
			process = sc.WindowsOptions.HostProcess
			if whole != nil && *whole != *process {
				at.Child("securityContext").Child("windowsOptions").Child("hostProcess").
					Invalid(*process, "pod hostProcess value must be identical if both are specified")
			}
		}
		if process != nil && *process {
			host++
		} else {
			other++
		}
	})
	if host == 0 {
		return
	}
	if other > 0 {
		f.Invalid("", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !p.spec.HostNetwork {
		f.Child("hostNetwork").Invalid(p.spec.HostNetwork, "hostNetwork must be true if pod contains any hostProcess containers")
	}
	if f.DenyPrivileged() {
		f.Forbidden("hostProcess containers are " + notByPolicy)
	}
}
