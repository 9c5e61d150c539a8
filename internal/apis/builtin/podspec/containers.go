package podspec

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// container is a container, init container or ephemeral container that is being validated.
type container struct {
	*corev1.Container
	pod *pod
}

// validateContainers validates all containers of a pod. Their names must be unique.
func (p *pod) validateContainers(f validation.Field) {
	spec := p.spec
	if len(spec.Containers) == 0 {
		f.Child("containers").Required("")
	}
	names := validation.NewDuplicates[string](len(spec.Containers) + len(spec.InitContainers) + len(spec.EphemeralContainers))
	for i := range spec.Containers {
		at := f.Child("containers").Index(i)
		c := container{&spec.Containers[i], p}
		c.validateMain(at)
		validateUnique(at.Child("name"), &names, c.Name)
	}
	for i := range spec.InitContainers {
		at := f.Child("initContainers").Index(i)
		c := container{&spec.InitContainers[i], p}
		c.validateInit(at)
		validateUnique(at.Child("name"), &names, c.Name)
	}
	p.validateEphemerals(f.Child("ephemeralContainers"), &names)
	p.validateHostPorts(f)
}

func (p *pod) validateEphemerals(f validation.Field, names *validation.Duplicates[string]) {
	if len(p.spec.EphemeralContainers) == 0 {
		return
	}
	targets := validation.NewDuplicates[string](len(p.spec.Containers))
	for i := range p.spec.Containers {
		targets.IsDuplicate(p.spec.Containers[i].Name)
	}
	for i := range p.spec.EphemeralContainers {
		p.validateEphemeral(f.Index(i), &p.spec.EphemeralContainers[i], &targets)
		validateUnique(f.Index(i).Child("name"), names, p.spec.EphemeralContainers[i].Name)
	}
}

func validateUnique(f validation.Field, names *validation.Duplicates[string], name string) {
	if name != "" && names.IsDuplicate(name) {
		f.Duplicate(name)
	}
}

func (c *container) validateMain(f validation.Field) {
	c.validateCommon(f)
	c.validateRestart(f, false)
	c.validateRunning(f)
}

// validateInit validates an init container. It rejects fields that only restartable init containers (sidecars)
// may have.
func (c *container) validateInit(f validation.Field) {
	c.validateCommon(f)
	c.validateRestart(f, true)
	if restartable(c.Container) {
		c.validateRunning(f)
		return
	}
	for _, field := range [...]struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
	} {
		if field.set {
			f.Child(field.name).Forbidden("may not be set for init containers without restartPolicy=Always")
		}
	}
}

// validateRunning validates the probes and lifecycle of a long-running container.
func (c *container) validateRunning(f validation.Field) {
	if at := f.Child("lifecycle"); c.Lifecycle != nil {
		c.pod.validateHandler(at.Child("postStart"), c.Lifecycle.PostStart)
		c.pod.validateHandler(at.Child("preStop"), c.Lifecycle.PreStop)
		c.pod.validateStopSignal(at.Child("stopSignal"), c.Lifecycle.StopSignal)
	}
	c.pod.validateSoleProbe(f.Child("livenessProbe"), c.LivenessProbe)
	c.pod.validateReadinessProbe(f.Child("readinessProbe"), c.ReadinessProbe)
	c.pod.validateSoleProbe(f.Child("startupProbe"), c.StartupProbe)
}

// validateCommon contains the rules that apply to all types of containers.
func (c *container) validateCommon(f validation.Field) {
	if c.Name == "" {
		f.Child("name").Required("")
	} else {
		f.Child("name").DNSLabel(c.Name)
	}
	c.validateImage(f)
	switch at := f.Child("terminationMessagePolicy"); c.TerminationMessagePolicy {
	case "":
		at.Required("")
	default:
		validation.OneOf(at, c.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	}
	c.validatePorts(f.Child("ports"))
	c.validateEnv(f.Child("env"))
	c.validateEnvFrom(f.Child("envFrom"))
	c.validateMounts(f.Child("volumeMounts"))
	c.validateDevices(f.Child("volumeDevices"))
	c.pod.validateContainerResources(f.Child("resources"), &c.Resources)
	c.validateResizePolicies(f.Child("resizePolicy"))
	c.validateSecurityContext(f.Child("securityContext"))
}

// validateImage validates an image name. In templates, it may be surrounded by spaces, because some tools
// replace the whole text.
func (c *container) validateImage(f validation.Field) {
	if c.Image == "" {
		f.Child("image").Required("")
	} else if c.pod.options.Pod && strings.TrimSpace(c.Image) != c.Image {
		f.Child("image").Invalid(c.Image, "must not have leading or trailing whitespace")
	}
	validatePullPolicy(f.Child("imagePullPolicy"), c.ImagePullPolicy)
}

func validatePullPolicy(f validation.Field, policy corev1.PullPolicy) {
	if policy == "" {
		f.Required("")
		return
	}
	validation.OneOf(f, policy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

// Limits for restart rules.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// validateRestart validates the restart policy of a container, which overrides the policy of the
// pod.
func (c *container) validateRestart(f validation.Field, init bool) {
	if policy := c.RestartPolicy; policy != nil {
		validation.OneOf(f.Child("restartPolicy"), *policy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	} else if len(c.RestartPolicyRules) > 0 {
		f.Child("restartPolicy").Required("must specify restartPolicy when restart rules are used")
		if init {
			return
		}
	}
	f = f.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > maxRestartRules {
		f.TooLong(maxRestartRules)
	}
	for i := range c.RestartPolicyRules {
		rule, at := &c.RestartPolicyRules[i], f.Index(i)
		c.pod.validateRestartAction(at.Child("action"), rule.Action)
		if rule.ExitCodes == nil {
			at.Child("exitCodes").Required("must be specified")
			continue
		}
		validation.OneOf(at.Child("exitCodes").Child("operator"), rule.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(rule.ExitCodes.Values); n > maxExitCodes {
			at.Child("exitCodes").Child("values").TooMany(n, maxExitCodes)
		}
	}
}

func (p *pod) validateRestartAction(f validation.Field, action corev1.ContainerRestartRuleAction) {
	const one, all = corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	if f.Enabled(feature.RestartAllContainersOnContainerExits) || p.restartedAll {
		validation.OneOf(f, action, one, all)
		return
	}
	validation.OneOf(f, action, one)
}

// RestartsAllContainers reports whether the exit of one container can cause the restart of all containers of
// the pod.
func RestartsAllContainers(spec *corev1.PodSpec) bool {
	for _, containers := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			for j := range containers[i].RestartPolicyRules {
				if containers[i].RestartPolicyRules[j].Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}

func (c *container) validatePorts(f validation.Field) {
	names := validation.NewDuplicates[string](len(c.Ports))
	for i := range c.Ports {
		port, at := &c.Ports[i], f.Index(i)
		if port.Name != "" {
			at.Child("name").PortName(port.Name)
			if names.IsDuplicate(port.Name) {
				at.Child("name").Duplicate(port.Name)
			}
		}
		if port.ContainerPort == 0 {
			at.Child("containerPort").Required("")
		} else {
			at.Child("containerPort").PortNumber(port.ContainerPort)
		}
		if port.HostPort != 0 {
			at.Child("hostPort").PortNumber(port.HostPort)
		}
		if port.Protocol == "" {
			at.Child("protocol").Required("")
		} else {
			validation.OneOf(at.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
	}
}

// hostPort is a port on the node. Only one container of a pod can use it.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

func hostPortText(port *corev1.ContainerPort) string {
	return string(port.Protocol) + "/" + port.HostIP + "/" + strconv.Itoa(int(port.HostPort))
}

// validateHostPorts rejects host ports that are used by several containers.
func (p *pod) validateHostPorts(f validation.Field) {
	taken := validation.NewDuplicates[hostPort](0)
	for i := range p.spec.Containers {
		for j := range p.spec.Containers[i].Ports {
			port, at := &p.spec.Containers[i].Ports[j], f.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort")
			if port.HostPort != 0 && taken.IsDuplicate(hostPort{port.Protocol, port.HostIP, port.HostPort}) {
				at.Duplicate(hostPortText(port))
			}
			p.validateNodePort(at, port)
		}
	}
	for i := range p.spec.InitContainers {
		p.validateInitHostPorts(f.Child("initContainers"), i)
	}
}

// validateInitHostPorts rejects host ports that occur twice in one init container. Ports of different init
// containers do not conflict, because init containers run sequentially. As in kube-apiserver, the error is
// reported for the first init container.
func (p *pod) validateInitHostPorts(f validation.Field, i int) {
	ports := p.spec.InitContainers[i].Ports
	taken := validation.NewDuplicates[hostPort](len(ports))
	for j := range ports {
		port := &ports[j]
		if port.HostPort != 0 && taken.IsDuplicate(hostPort{port.Protocol, port.HostIP, port.HostPort}) {
			f.Index(0).Child("ports").Index(j).Child("hostPort").Duplicate(hostPortText(port))
		}
		p.validateNodePort(f.Index(i).Child("ports").Index(j).Child("hostPort"), port)
	}
}

// validateNodePort requires that host port and container port are equal if the pod uses the node's network.
// Templates may omit the host port, which is set when pods are created.
func (p *pod) validateNodePort(f validation.Field, port *corev1.ContainerPort) {
	if p.spec.HostNetwork && port.HostPort != port.ContainerPort && (p.options.Pod || port.HostPort != 0) {
		f.Invalid(port.HostPort, "must match `containerPort` when `hostNetwork` is true")
	}
}
