package podsecurity

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// seLinux10 allows only the SELinux types for containers, and forbids setting SELinux users and roles.
func seLinux10(pod Pod) Violation { return seLinux(pod, isContainerType) }

// seLinux131 is like seLinux10, and also allows the type container_engine_t.
func seLinux131(pod Pod) Violation {
	return seLinux(pod, func(name string) bool { return isContainerType(name) || name == "container_engine_t" })
}

func isContainerType(name string) bool {
	switch name {
	case "", "container_t", "container_init_t", "container_kvm_t":
		return true
	}
	return false
}

func seLinux(pod Pod, allowed func(string) bool) Violation {
	var by setters
	var types valueSet
	user, role := false, false
	isForbidden := func(options *corev1.SELinuxOptions) bool {
		if options == nil {
			return false
		}
		typeAllowed := allowed(options.Type)
		if !typeAllowed {
			types.add(options.Type)
		}
		user, role = user || options.User != "", role || options.Role != ""
		return !typeAllowed || options.User != "" || options.Role != ""
	}
	by.pod = isForbidden(pod.podContext().SELinuxOptions)
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if isForbidden(context.SELinuxOptions) {
			by.containers = append(by.containers, c.Name)
		}
	})
	if !by.any() {
		return Violation{}
	}
	var what []string
	if len(types) > 0 {
		what = append(what, plural("type", "types", len(types))+" "+quoted(types.sorted()))
	}
	if user {
		what = append(what, "user may not be set")
	}
	if role {
		what = append(what, "role may not be set")
	}
	return Violation{"seLinuxOptions", by.String() + " set forbidden securityContext.seLinuxOptions: " + strings.Join(what, "; ")}
}
