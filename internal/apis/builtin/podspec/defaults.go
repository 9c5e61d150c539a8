// Package podspec contains the defaults and validation of pod specs, which pods and pod templates have in
// common. It also covers parts of pod specs that other kinds contain, such as volumes and claims. Package core
// contains the rules that apply only to pods.
package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// gracePeriod is the default termination grace period of pods, in seconds.
const gracePeriod = 30

// Default sets the defaults that pods and pod templates have in common. If all fields are already set, it does
// not change or allocate anything.
func Default(spec *corev1.PodSpec) {
	builtin.SetDefaultValue(&spec.DNSPolicy, corev1.DNSClusterFirst)
	builtin.SetDefaultValue(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	builtin.SetDefaultValue(&spec.SchedulerName, corev1.DefaultSchedulerName)
	builtin.SetDefault(&spec.SecurityContext, corev1.PodSecurityContext{})
	builtin.SetDefault(&spec.TerminationGracePeriodSeconds, gracePeriod)
	// The account name has a deprecated and a current field. Clients may set either field and read both.
	builtin.SetDefaultValue(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	RoundUpQuantities(spec.Overhead)
	RoundUpRequirements(spec.Resources)
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	builtin.SetDefaultValue(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	builtin.SetDefaultValue(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		builtin.SetDefaultValue(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				builtin.SetDefault(&from.FileKeyRef.Optional, false)
			}
		}
	}
	RoundUpRequirements(&c.Resources)
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if c.Lifecycle != nil {
		defaultHandler(c.Lifecycle.PostStart)
		defaultHandler(c.Lifecycle.PreStop)
	}
}

// pullPolicy returns the default pull policy. It is Always for images whose name may refer to different
// contents over time, and IfNotPresent for other images.
func pullPolicy(image string) corev1.PullPolicy {
	if isLatest(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		builtin.SetDefaultValue(&ref.APIVersion, "v1")
	}
}

func defaultProbe(probe *corev1.Probe) {
	if probe == nil {
		return
	}
	builtin.SetDefaultValue(&probe.TimeoutSeconds, 1)
	builtin.SetDefaultValue(&probe.PeriodSeconds, 10)
	builtin.SetDefaultValue(&probe.SuccessThreshold, 1)
	builtin.SetDefaultValue(&probe.FailureThreshold, 3)
	defaultHTTPGet(probe.HTTPGet)
	if probe.GRPC != nil {
		builtin.SetDefault(&probe.GRPC.Service, "")
	}
}

func defaultHandler(handler *corev1.LifecycleHandler) {
	if handler != nil {
		defaultHTTPGet(handler.HTTPGet)
	}
}

func defaultHTTPGet(get *corev1.HTTPGetAction) {
	if get != nil {
		builtin.SetDefaultValue(&get.Path, "/")
		builtin.SetDefaultValue(&get.Scheme, corev1.URISchemeHTTP)
	}
}
