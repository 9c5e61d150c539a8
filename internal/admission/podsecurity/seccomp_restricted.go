package podsecurity

// seccompRestricted has pods, or all containers, have a seccomp profile.
func seccompRestricted(pod Pod) Violation {
	by, profiles, without := seccompProfiles(pod)
	switch {
	case by.any():
		return Violation{seccompReason, mustNotSetSeccomp(&by, profiles)}
	case len(without) > 0:
		return Violation{seccompReason, "pod or " + theContainers(without) + ` must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`}
	}
	return Violation{}
}
