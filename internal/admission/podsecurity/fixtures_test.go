package podsecurity_test

import (
	corev1 "k8s.io/api/core/v1"
)

// Annotation keys that several fixtures use.
const (
	appArmorAnnotation = "container.apparmor.security.beta.kubernetes.io/c"
	seccompOfPod       = "seccomp.security.alpha.kubernetes.io/pod"
	seccompOfContainer = "container.seccomp.security.alpha.kubernetes.io/"
)

// fixtures returns pods for each check: rejected pods, with the versions that reject them, and allowed edge
// cases.
func fixtures() []fixture {
	var found []fixture
	for _, of := range [][]fixture{
		{{name: "good"}}, appArmorFixtures(), capabilityFixtures(), hostFixtures(), probeFixtures(), procMountFixtures(), rootFixtures(),
		escalationFixtures(), seccompFixtures(), seLinuxFixtures(), sysctlFixtures(), volumeFixtures(), hostProcessFixtures(), windowsFixtures(),
	} {
		found = append(found, of...)
	}
	return found
}

func appArmorFixtures() []fixture {
	profile := func(kind corev1.AppArmorProfileType) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: kind}
	}
	refusal := `forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")`
	container := `forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")`
	annotation := `forbidden AppArmor profile (annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/c="unconfined"")`
	everywhere := `forbidden AppArmor profiles (pod and containers "i", "c", "d", "e" and annotation must not set AppArmor profile type to "Other", "Unconfined", "container.apparmor.security.beta.kubernetes.io/c="unconfined"")`
	return []fixture{
		{name: "AppArmor: pod", change: ofPod(func(p *corev1.PodSecurityContext) { p.AppArmorProfile = profile("Unconfined") }), baseline: always(refusal), restricted: always(refusal)},
		{name: "AppArmor: container", change: first(func(s *corev1.SecurityContext) { s.AppArmorProfile = profile("Unconfined") }), baseline: always(container), restricted: always(container)},
		{name: "AppArmor: annotation", annotations: map[string]string{appArmorAnnotation: "unconfined"}, baseline: always(annotation), restricted: always(annotation)},
		{name: "AppArmor: everywhere", annotations: map[string]string{appArmorAnnotation: "unconfined"}, change: both(
			ofPod(func(p *corev1.PodSecurityContext) { p.AppArmorProfile = profile("Other") }),
			all(func(s *corev1.SecurityContext) { s.AppArmorProfile = profile("Unconfined") }),
		), baseline: always(everywhere), restricted: always(everywhere)},
		{name: "AppArmor: allowed profiles", change: both(
			ofPod(func(p *corev1.PodSecurityContext) { p.AppArmorProfile = profile("RuntimeDefault") }),
			all(func(s *corev1.SecurityContext) { s.AppArmorProfile = profile("Localhost") }),
		)},
		{name: "AppArmor: allowed annotations", annotations: map[string]string{appArmorAnnotation: "runtime/default", appArmorAnnotation + "2": "localhost/x", appArmorAnnotation + "3": ""}},
	}
}

func capabilityFixtures() []fixture {
	add := func(names ...corev1.Capability) func(*corev1.SecurityContext) {
		return func(s *corev1.SecurityContext) { s.Capabilities.Add = names }
	}
	admin := `non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)`
	unrestricted := `unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)`
	undropped := `unrestricted capabilities (containers "i", "c", "d", "e" must set securityContext.capabilities.drop=["ALL"]; containers "i", "c", "d", "e" must not include "KILL" in securityContext.capabilities.add)`
	without := `unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])`
	return []fixture{
		{name: "capabilities: not the runtime's", change: first(add("SYS_ADMIN", "NET_RAW", "SYS_ADMIN")), baseline: always(admin), restricted: []violationSince{
			{0, admin}, {22, `unrestricted capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)`},
		}},
		{name: "capabilities: the runtime's", change: first(add("CHOWN")), restricted: []violationSince{{22, unrestricted}}},
		{name: "capabilities: all of the runtime's", change: all(add("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")), restricted: []violationSince{
			{22, `unrestricted capabilities (containers "i", "c", "d", "e" must not include "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT" in securityContext.capabilities.add)`},
		}},
		{name: "capabilities: to bind ports", change: all(add("NET_BIND_SERVICE"))},
		{name: "capabilities: none dropped", change: all(func(s *corev1.SecurityContext) {
			s.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"KILL"}}
		}), restricted: []violationSince{{22, undropped}}},
		{name: "capabilities: nothing violationSince", change: first(func(s *corev1.SecurityContext) { s.Capabilities = nil }), restricted: []violationSince{{22, without}}},
		{name: "capabilities: others dropped", change: first(func(s *corev1.SecurityContext) { s.Capabilities.Drop = []corev1.Capability{"all", "CAP_ALL"} }), restricted: []violationSince{{22, without}}},
	}
}

func hostFixtures() []fixture {
	port := func(number ...int32) []corev1.ContainerPort {
		var ports []corev1.ContainerPort
		for _, n := range number {
			ports = append(ports, corev1.ContainerPort{ContainerPort: 80, HostPort: n})
		}
		return ports
	}
	refused := func(name, text string, change func(*corev1.PodSpec)) fixture {
		return fixture{name: name, change: change, baseline: always(text), restricted: always(text)}
	}
	return []fixture{
		refused("host namespaces: network", "host namespaces (hostNetwork=true)", func(s *corev1.PodSpec) { s.HostNetwork = true }),
		refused("host namespaces: processes", "host namespaces (hostPID=true)", func(s *corev1.PodSpec) { s.HostPID = true }),
		refused("host namespaces: all", "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)", func(s *corev1.PodSpec) { s.HostNetwork, s.HostPID, s.HostIPC = true, true, true }),
		refused("host ports: one", `hostPort (container "c" uses hostPort 80)`, func(s *corev1.PodSpec) { s.Containers[0].Ports = port(0, 80) }),
		refused("host ports: many", `hostPort (containers "i", "d", "e" use hostPorts 443, 80, 8080)`, func(s *corev1.PodSpec) {
			s.InitContainers[0].Ports, s.Containers[1].Ports, s.EphemeralContainers[0].Ports = port(80), port(8080, 443), port(80)
		}),
		refused("privileged: one", `privileged (container "c" must not set securityContext.privileged=true)`, first(func(s *corev1.SecurityContext) { s.Privileged = ptr(true) })),
		refused("privileged: all", `privileged (containers "i", "c", "d", "e" must not set securityContext.privileged=true)`, all(func(s *corev1.SecurityContext) { s.Privileged = ptr(true) })),
		{name: "privileged: no", change: all(func(s *corev1.SecurityContext) { s.Privileged = ptr(false) })},
		{name: "host ports: none", change: func(s *corev1.PodSpec) { s.Containers[0].Ports = port(0) }},
	}
}

func probeFixtures() []fixture {
	get := func(host string) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host}}
	}
	dial := func(host string) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host}}
	}
	refused := func(name, text string, change func(*corev1.PodSpec)) fixture {
		return fixture{name: name, change: change, baseline: []violationSince{{34, text}}, restricted: []violationSince{{34, text}}}
	}
	one := `probe or lifecycle host (container "c" uses probe or lifecycle host "a")`
	return []fixture{
		refused("probes: liveness", one, func(s *corev1.PodSpec) { s.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: get("a")} }),
		refused("probes: readiness", one, func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: dial("a")} }),
		refused("probes: startup", one, func(s *corev1.PodSpec) { s.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: get("a")} }),
		refused("probes: after the start", one, func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "a"}}}
		}),
		refused("probes: before the stop", one, func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "a"}}}
		}),
		refused("probes: many", `probe or lifecycle host (containers "c", "i" use probe or lifecycle hosts "a", "b")`, func(s *corev1.PodSpec) {
			s.InitContainers[0].StartupProbe = &corev1.Probe{ProbeHandler: get("b")}
			s.Containers[0].LivenessProbe, s.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: get("a")}, &corev1.Probe{ProbeHandler: dial("b")}
		}),
		{name: "probes: of the pod itself", change: func(s *corev1.PodSpec) {
			s.Containers[0].LivenessProbe, s.Containers[0].Lifecycle = &corev1.Probe{ProbeHandler: get("")}, &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}
		}},
	}
}

func procMountFixtures() []fixture {
	unmasked := first(func(s *corev1.SecurityContext) { s.ProcMount = ptr(corev1.UnmaskedProcMount) })
	refusal := `procMount (container "c" must not set securityContext.procMount to "Unmasked")`
	return []fixture{
		{name: "procMount", change: unmasked, baseline: always(refusal), restricted: always(refusal)},
		{name: "procMount: user namespace", change: both(unmasked, hostUsers(false)), baseline: []violationSince{{0, refusal}, {35, ""}}, restricted: always(refusal)},
		{name: "procMount: users of the host", change: both(unmasked, hostUsers(true)), baseline: always(refusal), restricted: always(refusal)},
		{name: "procMount: the default", change: all(func(s *corev1.SecurityContext) { s.ProcMount = ptr(corev1.DefaultProcMount) })},
	}
}

func rootFixtures() []fixture {
	root := `runAsUser=0 (pod and containers "i", "c", "d", "e" must not set runAsUser=0)`
	asRoot := both(ofPod(func(p *corev1.PodSecurityContext) { p.RunAsUser = ptr(int64(0)) }), all(func(s *corev1.SecurityContext) { s.RunAsUser = ptr(int64(0)) }))
	silent := `runAsNonRoot != true (pod or containers "i", "c", "d", "e" must set securityContext.runAsNonRoot=true)`
	saysNothing := ofPod(func(p *corev1.PodSecurityContext) { p.RunAsNonRoot = nil })
	saysNo := both(ofPod(func(p *corev1.PodSecurityContext) { p.RunAsNonRoot = ptr(false) }), first(func(s *corev1.SecurityContext) { s.RunAsNonRoot = ptr(false) }))
	return []fixture{
		{name: "runAsUser: everywhere", change: asRoot, restricted: []violationSince{{23, root}}},
		{name: "runAsUser: user namespace", change: both(asRoot, hostUsers(false)), restricted: []violationSince{{23, root}, {35, ""}}},
		{name: "runAsUser: container", change: first(func(s *corev1.SecurityContext) { s.RunAsUser = ptr(int64(0)) }), restricted: []violationSince{{23, `runAsUser=0 (container "c" must not set runAsUser=0)`}}},
		{name: "runAsUser: another user", change: ofPod(func(p *corev1.PodSecurityContext) { p.RunAsUser = ptr(int64(1)) })},
		{name: "runAsNonRoot: nothing violationSince", change: saysNothing, restricted: always(silent)},
		{name: "runAsNonRoot: user namespace", change: both(saysNothing, hostUsers(false)), restricted: []violationSince{{0, silent}, {35, ""}}},
		{name: "runAsNonRoot: no security context", change: func(s *corev1.PodSpec) {
			s.SecurityContext = nil
			s.Containers[0].SecurityContext.SeccompProfile = nil
		}, restricted: []violationSince{
			{0, silent}, {19, silent + `, seccompProfile (pod or containers "i", "c", "d", "e" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`},
		}},
		{name: "runAsNonRoot: false", change: saysNo, restricted: always(`runAsNonRoot != true (pod and container "c" must not set securityContext.runAsNonRoot=false)`)},
		{name: "runAsNonRoot: each container", change: both(saysNothing, all(func(s *corev1.SecurityContext) { s.RunAsNonRoot = ptr(true) }))},
	}
}

func escalationFixtures() []fixture {
	one := []violationSince{{8, `allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)`}}
	return []fixture{
		{name: "escalation: true", change: first(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = ptr(true) }), restricted: one},
		{name: "escalation: nothing violationSince", change: first(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = nil }), restricted: one},
		{name: "escalation: ephemeral container", change: func(s *corev1.PodSpec) { s.EphemeralContainers[0].SecurityContext.AllowPrivilegeEscalation = ptr(true) }, restricted: []violationSince{
			{8, `allowPrivilegeEscalation != false (container "e" must set securityContext.allowPrivilegeEscalation=false)`},
		}},
	}
}

func seccompFixtures() []fixture {
	unconfined := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	pod := `seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")`
	container := `seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")`
	annotations := `seccompProfile (forbidden annotations container.seccomp.security.alpha.kubernetes.io/c="unconfined", seccomp.security.alpha.kubernetes.io/pod="unconfined")`
	return []fixture{
		{name: "seccomp: pod", change: ofPod(func(p *corev1.PodSecurityContext) { p.SeccompProfile = unconfined }), baseline: []violationSince{{19, pod}}, restricted: []violationSince{{19, pod}}},
		{name: "seccomp: container", change: first(func(s *corev1.SecurityContext) { s.SeccompProfile = unconfined }), baseline: []violationSince{{19, container}}, restricted: []violationSince{{19, container}}},
		{name: "seccomp: nothing violationSince", change: ofPod(func(p *corev1.PodSecurityContext) { p.SeccompProfile = nil }), restricted: []violationSince{
			{19, `seccompProfile (pod or containers "i", "c", "d", "e" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`},
		}},
		{name: "seccomp: each container", change: both(ofPod(func(p *corev1.PodSecurityContext) { p.SeccompProfile = nil }),
			all(func(s *corev1.SecurityContext) {
				s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}
			}))},
		{name: "seccomp: annotations", annotations: map[string]string{seccompOfPod: "unconfined", seccompOfContainer + "c": "unconfined", seccompOfContainer + "other": "unconfined"},
			baseline: []violationSince{{0, annotations}, {19, ""}}, restricted: []violationSince{{0, annotations}, {19, ""}}},
		{name: "seccomp: one annotation", annotations: map[string]string{seccompOfPod: ""},
			baseline:   []violationSince{{0, `seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="")`}, {19, ""}},
			restricted: []violationSince{{0, `seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="")`}, {19, ""}}},
		{name: "seccomp: allowed annotations", annotations: map[string]string{seccompOfPod: "runtime/default", seccompOfContainer + "c": "docker/default", seccompOfContainer + "d": "localhost/x"}},
	}
}

func seLinuxFixtures() []fixture {
	refused := func(name, text string, options corev1.SELinuxOptions) fixture {
		return fixture{name: name, change: ofPod(func(p *corev1.PodSecurityContext) { p.SELinuxOptions = &options }), baseline: always(text), restricted: always(text)}
	}
	engine := `seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "container_engine_t")`
	many := `seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: types "a", "b"; user may not be set; role may not be set)`
	return []fixture{
		refused("SELinux: type", `seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t")`, corev1.SELinuxOptions{Type: "spc_t"}),
		refused("SELinux: user", `seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: user may not be set)`, corev1.SELinuxOptions{User: "u"}),
		refused("SELinux: role", `seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: role may not be set)`, corev1.SELinuxOptions{Role: "r"}),
		{name: "SELinux: everything", change: both(ofPod(func(p *corev1.PodSecurityContext) { p.SELinuxOptions = &corev1.SELinuxOptions{Type: "b", User: "u"} }),
			first(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "a", Role: "r"} })), baseline: always(many), restricted: always(many)},
		{name: "SELinux: engine", change: first(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_engine_t"} }),
			baseline: []violationSince{{0, engine}, {31, ""}}, restricted: []violationSince{{0, engine}, {31, ""}}},
		{name: "SELinux: allowed types", change: both(ofPod(func(p *corev1.PodSecurityContext) {
			p.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_t", Level: "s0"}
		}), func(s *corev1.PodSpec) {
			s.InitContainers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{}
			s.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_init_t"}
			s.Containers[1].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_kvm_t"}
		})},
	}
}

func sysctlFixtures() []fixture {
	set := func(names ...string) func(*corev1.PodSpec) {
		return ofPod(func(p *corev1.PodSecurityContext) {
			for _, name := range names {
				p.Sysctls = append(p.Sysctls, corev1.Sysctl{Name: name, Value: "1"})
			}
		})
	}
	refused := func(name string, until int, names ...string) fixture {
		text := "forbidden sysctls ("
		for i, n := range names {
			if i > 0 {
				text += ", "
			}
			text += n
		}
		violationSince := []violationSince{{0, text + ")"}, {until, ""}}
		return fixture{name: name, change: set(names...), baseline: violationSince, restricted: violationSince}
	}
	return []fixture{
		refused("sysctls: others", newestMinor+1, "kernel.msgmax", "a", "kernel.msgmax"),
		refused("sysctls: 1.27", 27, "net.ipv4.ip_local_reserved_ports"),
		refused("sysctls: 1.29", 29, "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"),
		refused("sysctls: 1.32", 32, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
		refused("sysctls: 1.37", 37, "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
		{name: "sysctls: 1.0", change: set("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start")},
	}
}

func volumeFixtures() []fixture {
	one := func(kind string) []violationSince {
		return always(`restricted volume types (volume "v" uses restricted volume type "` + kind + `")`)
	}
	hostPath := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}
	nfs := corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}
	fixtures := []fixture{
		{name: "volumes: host paths", change: both(volume("v", hostPath), volume("w", hostPath)), baseline: always(`hostPath volumes (volumes "v", "w")`),
			restricted: always(`restricted volume types (volumes "v", "w" use restricted volume type "hostPath")`)},
		{name: "volumes: host path", change: volume("v", hostPath), baseline: always(`hostPath volumes (volume "v")`), restricted: one("hostPath")},
		{name: "volumes: two types", change: both(volume("v", nfs), volume("w", hostPath)), baseline: always(`hostPath volumes (volume "w")`),
			restricted: always(`restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")`)},
		{name: "volumes: unknown", change: volume("v", corev1.VolumeSource{}), restricted: one("unknown")},
	}
	for kind, source := range map[string]corev1.VolumeSource{
		"gcePersistentDisk": {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}, "awsElasticBlockStore": {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}},
		"gitRepo": {GitRepo: &corev1.GitRepoVolumeSource{}}, "nfs": nfs, "iscsi": {ISCSI: &corev1.ISCSIVolumeSource{}}, "glusterfs": {Glusterfs: &corev1.GlusterfsVolumeSource{}},
		"rbd": {RBD: &corev1.RBDVolumeSource{}}, "flexVolume": {FlexVolume: &corev1.FlexVolumeSource{}}, "cinder": {Cinder: &corev1.CinderVolumeSource{}},
		"cephfs": {CephFS: &corev1.CephFSVolumeSource{}}, "flocker": {Flocker: &corev1.FlockerVolumeSource{}}, "fc": {FC: &corev1.FCVolumeSource{}},
		"azureFile": {AzureFile: &corev1.AzureFileVolumeSource{}}, "vsphereVolume": {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
		"quobyte": {Quobyte: &corev1.QuobyteVolumeSource{}}, "azureDisk": {AzureDisk: &corev1.AzureDiskVolumeSource{}},
		"photonPersistentDisk": {PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}}, "portworxVolume": {PortworxVolume: &corev1.PortworxVolumeSource{}},
		"scaleIO": {ScaleIO: &corev1.ScaleIOVolumeSource{}}, "storageos": {StorageOS: &corev1.StorageOSVolumeSource{}},
	} {
		fixtures = append(fixtures, fixture{name: "volumes: " + kind, change: volume("v", source), restricted: one(kind)})
	}
	for kind, source := range map[string]corev1.VolumeSource{
		"configMap": {ConfigMap: &corev1.ConfigMapVolumeSource{}}, "csi": {CSI: &corev1.CSIVolumeSource{}}, "downwardAPI": {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		"emptyDir": {EmptyDir: &corev1.EmptyDirVolumeSource{}}, "ephemeral": {Ephemeral: &corev1.EphemeralVolumeSource{}}, "image": {Image: &corev1.ImageVolumeSource{}},
		"persistentVolumeClaim": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}, "projected": {Projected: &corev1.ProjectedVolumeSource{}},
		"secret": {Secret: &corev1.SecretVolumeSource{}},
	} {
		fixtures = append(fixtures, fixture{name: "volumes: " + kind, change: volume("v", source)})
	}
	return fixtures
}

func hostProcessFixtures() []fixture {
	options := &corev1.WindowsSecurityContextOptions{HostProcess: ptr(true)}
	everywhere := `hostProcess (pod and containers "i", "c", "d", "e" must not set securityContext.windowsOptions.hostProcess=true)`
	one := `hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)`
	return []fixture{
		{name: "hostProcess: everywhere", change: both(ofPod(func(p *corev1.PodSecurityContext) { p.WindowsOptions = options }),
			all(func(s *corev1.SecurityContext) { s.WindowsOptions = options })), baseline: always(everywhere), restricted: always(everywhere)},
		{name: "hostProcess: container", change: first(func(s *corev1.SecurityContext) { s.WindowsOptions = options }), baseline: always(one), restricted: always(one)},
		{name: "hostProcess: no", change: ofPod(func(p *corev1.PodSecurityContext) {
			p.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: ptr(false)}
		})},
	}
}

// windowsFixtures returns Windows pods without the fields that Windows does not support.
func windowsFixtures() []fixture {
	bare := func(s *corev1.PodSpec) {
		s.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: ptr(true)}
		all(func(c *corev1.SecurityContext) { *c = corev1.SecurityContext{} })(s)
	}
	escalation := `allowPrivilegeEscalation != false (containers "i", "c", "d", "e" must set securityContext.allowPrivilegeEscalation=false)`
	capabilities := `unrestricted capabilities (containers "i", "c", "d", "e" must set securityContext.capabilities.drop=["ALL"])`
	seccomp := `seccompProfile (pod or containers "i", "c", "d", "e" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`
	before := []violationSince{{8, escalation}, {19, escalation + ", " + seccomp}, {22, escalation + ", " + capabilities + ", " + seccomp}}
	return []fixture{
		{name: "Windows", change: both(bare, windows), restricted: append(before[:3:3], violationSince{25, ""})},
		{name: "Linux", change: both(bare, func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Linux} }), restricted: before},
	}
}
