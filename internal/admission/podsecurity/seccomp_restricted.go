package podsecurity

// seccompRestricted requires an allowed seccomp profile for the pod or for all containers.
func seccompRestricted(pod Pod) Violation {
	by, profiles, without := seccompProfiles(pod)
	switch {
	case by.any():
		return Violation{seccompReason, mustNotSetSeccomp(&by, profiles)}
	case len(without) > 0:
		return Violation{seccompReason, "pod or " + describeContainers(without) + ` must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`}
	}
	return Violation{}
}
