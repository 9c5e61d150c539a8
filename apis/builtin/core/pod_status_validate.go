package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/apis/builtin/validation"
)

// validatePodStatus has the rules of what kubelets and schedulers write.
func validatePodStatus(f validation.Field, pod, old *corev1.Pod) {
	f, s := f.Child("status"), &pod.Status
	if s.QOSClass != old.Status.QOSClass && old.Status.QOSClass != "" {
		f.Child("qosClass").Invalid(s.QOSClass, "field is immutable")
	}
	for i := range s.Conditions {
		f.Child("conditions").Index(i).Child("Type").QualifiedName(string(s.Conditions[i].Type)) // as kube-apiserver spells it
	}
	if s.NominatedNodeName != "" {
		f.Child("nominatedNodeName").DNSSubdomain(s.NominatedNodeName)
	}
	f.Child("observedGeneration").NonNegative(s.ObservedGeneration)
	validatePodIPs(f.Child("podIPs"), s.PodIPs, old.Status.PodIPs)
	validateHostIPs(f.Child("hostIPs"), s, &old.Status)
	validateContainerStatuses(f.Child("containerStatuses"), s.ContainerStatuses, old.Status.ContainerStatuses, pod.Spec.Containers, pod.Spec.RestartPolicy)
	validateContainerStatuses(f.Child("initContainerStatuses"), s.InitContainerStatuses, old.Status.InitContainerStatuses, pod.Spec.InitContainers, corev1.RestartPolicyAlways)
	claims := validation.NewSeen[string](len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		claims.Again(pod.Spec.ResourceClaims[i].Name)
	}
	for i := range s.ResourceClaimStatuses {
		if name := s.ResourceClaimStatuses[i].Name; !claims.Has(name) {
			f.Child("resourceClaimStatuses").Index(i).Child("name").Invalid(name, "must match the name of an entry in `spec.resourceClaims`")
		}
	}
}

const oneForEachFamily = "may specify no more than one IP for each IP family"

func validatePodIPs(f validation.Field, ips, old []corev1.PodIP) {
	valid, families := true, validation.NewSeen[bool](len(ips))
	again := false
	for i := range ips {
		before := f.Faults()
		if i >= len(old) || old[i] != ips[i] {
			f.Index(i).IP(ips[i].IP)
		}
		valid = valid && f.Faults() == before
		again = families.Again(isIPv6(ips[i].IP)) || again
	}
	if valid && again {
		f.Invalid(ips, oneForEachFamily)
	}
}

// validateHostIPs: hostIP is the first of hostIPs.
func validateHostIPs(f validation.Field, s, old *corev1.PodStatus) {
	ips := s.HostIPs
	if len(ips) > 0 && ips[0].IP != s.HostIP {
		f.Index(0).Child("ip").Invalid(ips[0].IP, "must be equal to `hostIP`")
	}
	valid, families := true, validation.NewSeen[bool](len(ips))
	again := false
	for i := range ips {
		before := f.Faults()
		if i >= len(old.HostIPs) || old.HostIPs[i] != ips[i] {
			f.Index(i).IP(ips[i].IP)
		}
		valid = valid && f.Faults() == before
		again = families.Again(isIPv6(ips[i].IP)) || again
	}
	if valid && again {
		f.Invalid(ips, oneForEachFamily)
	}
}

// validateContainerStatuses: what has ended for good does not run again.
func validateContainerStatuses(f validation.Field, statuses, old []corev1.ContainerStatus, containers []corev1.Container, policy corev1.RestartPolicy) {
	byName := make(map[string]*corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		byName[statuses[i].Name] = &statuses[i]
		validateHealth(f.Index(i).Child("allocatedResourcesStatus"), &statuses[i], containers)
	}
	if policy == corev1.RestartPolicyAlways {
		return
	}
	for i := range old {
		ended := old[i].State.Terminated
		if ended == nil || policy == corev1.RestartPolicyOnFailure && ended.ExitCode != 0 {
			continue
		}
		if now := byName[old[i].Name]; now != nil && now.State.Terminated == nil {
			f.Index(i).Child("state").Forbidden("may not be transitioned to non-terminated state")
		}
	}
}

func validateHealth(f validation.Field, status *corev1.ContainerStatus, containers []corev1.Container) {
	for i := range status.AllocatedResourcesStatus {
		name := status.AllocatedResourcesStatus[i].Name
		if !strings.HasPrefix(string(name), "claim:") && !hasResource(containers, status.Name, name) {
			f.Index(i).Child("name").Invalid(name, "must match one of the container's resource requests")
		}
	}
}

func hasResource(containers []corev1.Container, container string, name corev1.ResourceName) bool {
	for i := range containers {
		if containers[i].Name == container {
			_, requested := containers[i].Resources.Requests[name]
			_, limited := containers[i].Resources.Limits[name]
			return requested || limited
		}
	}
	return false
}
