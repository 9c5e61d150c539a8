package podsecurity

import "strings"

// sysctls returns a check that allows only the sysctls that are considered safe in version v1.minor.
func sysctls(minor int) checkFunc {
	return func(pod Pod) Violation {
		var forbidden []string
		for _, s := range pod.podContext().Sysctls {
			if since, safe := safeSysctl(s.Name); !safe || since > minor {
				forbidden = append(forbidden, s.Name)
			}
		}
		if len(forbidden) == 0 {
			return Violation{}
		}
		return Violation{"forbidden sysctls", strings.Join(forbidden, ", ")}
	}
}

// safeSysctl reports whether a sysctl is considered safe, and returns the minor number of the first version
// that allows it.
func safeSysctl(name string) (since int, safe bool) {
	switch name {
	case "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
		"net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start":
		return 0, true
	case "net.ipv4.ip_local_reserved_ports":
		return 27, true
	case "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes":
		return 29, true
	case "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem":
		return 32, true
	case "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat":
		return 37, true
	}
	return 0, false
}
