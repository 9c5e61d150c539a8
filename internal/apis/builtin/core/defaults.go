package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// The functions in this file set default values. They are called for every object that is decoded from a
// request or from storage. If an object already has all values, they must not modify it or allocate memory.

func defaultEndpoints(endpoints *corev1.Endpoints) {
	for i := range endpoints.Subsets {
		ports := endpoints.Subsets[i].Ports
		for j := range ports {
			builtin.SetDefaultValue(&ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

func defaultLimitRange(limits *corev1.LimitRange) {
	for i := range limits.Spec.Limits {
		item := &limits.Spec.Limits[i]
		if item.Type == corev1.LimitTypeContainer {
			addMissing(&item.Default, item.Max)
			addMissing(&item.DefaultRequest, item.Default)
			addMissing(&item.DefaultRequest, item.Min)
		}
		podspec.RoundUpQuantities(item.Max)
		podspec.RoundUpQuantities(item.Min)
		podspec.RoundUpQuantities(item.Default)
		podspec.RoundUpQuantities(item.DefaultRequest)
		podspec.RoundUpQuantities(item.MaxLimitRequestRatio)
	}
}

// addMissing copies quantities from from to *to, except for names that *to already contains.
func addMissing(to *corev1.ResourceList, from corev1.ResourceList) {
	for name, quantity := range from {
		if _, ok := (*to)[name]; ok {
			continue
		}
		if *to == nil {
			*to = make(corev1.ResourceList, len(from))
		}
		(*to)[name] = quantity.DeepCopy()
	}
}

func defaultNode(node *corev1.Node) {
	alignPodCIDRs(node)
	if len(node.Status.Allocatable) == 0 {
		addMissing(&node.Status.Allocatable, node.Status.Capacity)
	}
	podspec.RoundUpQuantities(node.Status.Capacity)
	podspec.RoundUpQuantities(node.Status.Allocatable)
}

func defaultPersistentVolume(pv *corev1.PersistentVolume) {
	builtin.SetDefaultValue(&pv.Status.Phase, corev1.VolumePending)
	builtin.SetDefaultValue(&pv.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	builtin.SetDefault(&pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	podspec.DefaultPersistentVolumeSpec(&pv.Spec)
}

func defaultPodTemplate(template *corev1.PodTemplate) { podspec.Default(&template.Template.Spec) }

// defaultReplicationController copies the labels of the template to the selector and to the labels of the
// controller, unless they are set.
func defaultReplicationController(rc *corev1.ReplicationController) {
	builtin.SetDefault(&rc.Spec.Replicas, 1)
	template := rc.Spec.Template
	if template == nil {
		return
	}
	if len(template.Labels) > 0 {
		if len(rc.Spec.Selector) == 0 {
			rc.Spec.Selector = maps.Clone(template.Labels)
		}
		if len(rc.Labels) == 0 {
			rc.Labels = maps.Clone(template.Labels)
		}
	}
	podspec.Default(&template.Spec)
}

func defaultResourceQuota(quota *corev1.ResourceQuota) {
	podspec.RoundUpQuantities(quota.Spec.Hard)
	podspec.RoundUpQuantities(quota.Status.Hard)
	podspec.RoundUpQuantities(quota.Status.Used)
}

func defaultSecret(secret *corev1.Secret) {
	builtin.SetDefaultValue(&secret.Type, corev1.SecretTypeOpaque)
	mergeStringData(secret)
}

// defaultService does not allocate addresses and node ports, because this is done when the service is written.
func defaultService(service *corev1.Service) {
	spec := &service.Spec
	builtin.SetDefaultValue(&spec.Type, corev1.ServiceTypeClusterIP)
	builtin.SetDefaultValue(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		builtin.SetDefault(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		builtin.SetDefault(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		builtin.SetDefault(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		builtin.SetDefaultValue(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if isExternal(service) {
		builtin.SetDefaultValue(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if needsClusterIP(service) {
		builtin.SetDefault(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if !isLoadBalancer(service) {
		return
	}
	builtin.SetDefault(&spec.AllocateLoadBalancerNodePorts, true)
	for i := range service.Status.LoadBalancer.Ingress {
		if ingress := &service.Status.LoadBalancer.Ingress[i]; ingress.IP != "" {
			builtin.SetDefault(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}
