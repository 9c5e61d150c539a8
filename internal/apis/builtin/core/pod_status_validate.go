package core

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/core"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validatePodStatus validates a write to /status.
func validatePodStatus(f validation.Field, pod, old *corev1.Pod) {
	validateAnnotationsKept(f, pod, old)
	f, s := f.Child("status"), &pod.Status
	if s.QOSClass != old.Status.QOSClass && old.Status.QOSClass != "" {
		f.Child("qosClass").Invalid(s.QOSClass, "field is immutable")
	}
	for i := range s.Conditions {
		at := f.Child("conditions").Index(i)
		at.Child("Type").QualifiedName(string(s.Conditions[i].Type)) // the capital letter is the same as in kube-apiserver
		validateObservedGeneration(at, s.Conditions[i].ObservedGeneration)
	}
	if name := s.NominatedNodeName; name != "" && name != old.Status.NominatedNodeName {
		f.Child("nominatedNodeName").DNSSubdomain(name)
		if pod.Spec.NodeName != "" {
			f.Child("nominatedNodeName").Forbidden("may not be set on pods that are already bound to a node")
		}
	}
	validateObservedGeneration(f, s.ObservedGeneration)
	validatePodIPs(f.Child("podIPs"), s.PodIPs, old.Status.PodIPs)
	validateHostIPs(f.Child("hostIPs"), s, &old.Status)
	validateContainerStatuses(f, pod, &old.Status)
	validateClaimStatuses(f.Child("resourceClaimStatuses"), s.ResourceClaimStatuses, pod.Spec.ResourceClaims)
	validateExtendedClaim(f.Child("extendedResourceClaimStatus"), s.ExtendedResourceClaimStatus, &pod.Spec)
	if len(s.VolumeHealth)+len(s.NodeAllocatableResourceClaimStatuses) > 0 {
		validation.ValidateDeclared(f, declared.Validate_PodStatus, s, &old.Status, "status")
	}
}

// validateObservedGeneration validates the field observedGeneration of the object to which f refers.
func validateObservedGeneration(f validation.Field, generation int64) {
	if generation < 0 {
		f.Child("observedGeneration").Invalid(generation, "must be a non-negative integer")
	}
}

const oneForEachFamily = "may specify no more than one IP for each IP family"

func validatePodIPs(f validation.Field, ips, old []corev1.PodIP) {
	valid, families := true, validation.NewDuplicates[bool](len(ips))
	again := false
	for i := range ips {
		before := f.ErrorCount()
		if i >= len(old) || old[i] != ips[i] {
			f.Index(i).IP(ips[i].IP)
		}
		valid = valid && f.ErrorCount() == before
		again = families.IsDuplicate(isIPv6(ips[i].IP)) || again
	}
	if valid && again {
		f.Invalid(internalIPs(ips), oneForEachFamily)
	}
}

// internalIPs returns addresses in the type that kube-apiserver formats in errors. Its field name is that of
// kube-apiserver's internal type.
func internalIPs(ips []corev1.PodIP) []struct{ IP string } {
	quoted := make([]struct{ IP string }, len(ips))
	for i := range ips {
		quoted[i].IP = ips[i].IP
	}
	return quoted
}

// validateHostIPs requires that hostIP equals the first element of hostIPs.
func validateHostIPs(f validation.Field, s, old *corev1.PodStatus) {
	ips := s.HostIPs
	if len(ips) > 0 && ips[0].IP != s.HostIP {
		f.Index(0).Child("ip").Invalid(ips[0].IP, "must be equal to `hostIP`")
	}
	valid, families := true, validation.NewDuplicates[bool](len(ips))
	again := false
	for i := range ips {
		before := f.ErrorCount()
		if i >= len(old.HostIPs) || old.HostIPs[i] != ips[i] {
			f.Index(i).IP(ips[i].IP)
		}
		valid = valid && f.ErrorCount() == before
		again = families.IsDuplicate(isIPv6(ips[i].IP)) || again
	}
	if valid && again {
		f.Invalid(ips, oneForEachFamily)
	}
}

// statusList contains the statuses of a pod's containers, init containers or ephemeral containers.
type statusList struct {
	name       string
	now, old   []corev1.ContainerStatus
	containers []corev1.Container
	ephemeral  bool // ephemeral containers have no resources and run once
}

func validateContainerStatuses(f validation.Field, pod *corev1.Pod, old *corev1.PodStatus) {
	s, spec := &pod.Status, &pod.Spec
	restarts := newRestarts(spec)
	for _, list := range [...]statusList{
		{"containerStatuses", s.ContainerStatuses, old.ContainerStatuses, spec.Containers, false},
		{"initContainerStatuses", s.InitContainerStatuses, old.InitContainerStatuses, spec.InitContainers, false},
		{"ephemeralContainerStatuses", s.EphemeralContainerStatuses, old.EphemeralContainerStatuses, nil, true},
	} {
		at := f.Child(list.name)
		var resources map[containerResource]bool
		if slices.ContainsFunc(list.now, func(s corev1.ContainerStatus) bool { return len(s.AllocatedResourcesStatus) > 0 }) {
			resources = resourcesOf(list.containers)
		}
		for i := range list.now {
			list.validateHealth(at.Index(i).Child("allocatedResourcesStatus"), &list.now[i], resources)
			validateStatusUser(at.Index(i).Child("user").Child("linux"), list.now[i].User, spec.OS)
		}
		restarts.validate(at, &list)
	}
}

// restarts determines which terminated containers of a pod may be restarted.
type restarts struct {
	spec       *corev1.PodSpec
	containers map[string]*corev1.Container // nil if all containers may be restarted
}

func newRestarts(spec *corev1.PodSpec) restarts {
	r := restarts{spec: spec}
	if spec.RestartPolicy == corev1.RestartPolicyAlways || podspec.RestartsAllContainers(spec) {
		return r
	}
	r.containers = make(map[string]*corev1.Container, len(spec.Containers)+len(spec.InitContainers))
	for _, containers := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			r.containers[containers[i].Name] = &containers[i]
		}
	}
	return r
}

// validate rejects the restart of a container that may not be restarted.
func (r *restarts) validate(f validation.Field, list *statusList) {
	if r.containers == nil && !list.ephemeral || len(list.old) == 0 {
		return
	}
	now := make(map[string]*corev1.ContainerStatus, len(list.now))
	for i := range list.now {
		now[list.now[i].Name] = &list.now[i]
	}
	for i := range list.old {
		ended := list.old[i].State.Terminated
		if ended == nil || !list.ephemeral && r.allowed(list.old[i].Name, ended.ExitCode) {
			continue
		}
		if status := now[list.old[i].Name]; status != nil && status.State.Terminated == nil {
			f.Index(i).Child("state").Forbidden("may not be transitioned to non-terminated state")
		}
	}
}

// allowed reports whether a container that terminated with the given exit code may be restarted. This is
// determined by the restart rules and policy of the container or, if it has none, by the policy of the pod.
func (r *restarts) allowed(name string, code int32) bool {
	policy := corev1.ContainerRestartPolicy(r.spec.RestartPolicy)
	if c := r.containers[name]; c != nil && c.RestartPolicy != nil {
		policy = *c.RestartPolicy
		for i := range c.RestartPolicyRules {
			if exits := c.RestartPolicyRules[i].ExitCodes; exits != nil &&
				slices.Contains(exits.Values, code) == (exits.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
				return true
			}
		}
	}
	return policy == corev1.ContainerRestartPolicyAlways || policy == corev1.ContainerRestartPolicyOnFailure && code != 0
}

// validateHealth validates the health of the resources of a container. resources is the result of
// resourcesOf.
func (l *statusList) validateHealth(f validation.Field, status *corev1.ContainerStatus, resources map[containerResource]bool) {
	if len(status.AllocatedResourcesStatus) > 0 && l.ephemeral {
		f.Forbidden("cannot be set for a container status")
		return
	}
	for i := range status.AllocatedResourcesStatus {
		resource, at := &status.AllocatedResourcesStatus[i], f.Index(i)
		if !resources[containerResource{status.Name, string(resource.Name)}] {
			detail := "must match one of the container's resource requests"
			if strings.HasPrefix(string(resource.Name), claimPrefix) {
				detail = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
			}
			at.Child("name").Invalid(resource.Name, detail)
		}
		ids := validation.NewDuplicates[corev1.ResourceID](len(resource.Resources))
		for j := range resource.Resources {
			health, at := &resource.Resources[j], at.Child("resources").Index(j)
			if ids.IsDuplicate(health.ResourceID) {
				at.Child("resourceID").Duplicate(health.ResourceID)
			}
			validation.OneOf(at.Child("health"), health.Health,
				corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)
		}
	}
}

// containerResource is a resource of a container. name is the name of a resource, or claimPrefix with the name of
// a claim and, after a slash, of a request in it.
type containerResource struct{ container, name string }

const claimPrefix = "claim:"

// resourcesOf returns the resources that containers request, limit or claim.
func resourcesOf(containers []corev1.Container) map[containerResource]bool {
	resources := map[containerResource]bool{}
	for i := range containers {
		c := &containers[i]
		for _, list := range [...]corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name := range list {
				resources[containerResource{c.Name, string(name)}] = true
			}
		}
		for _, claim := range c.Resources.Claims {
			name := claimPrefix + claim.Name
			if claim.Request != "" {
				name += "/" + claim.Request
			}
			resources[containerResource{c.Name, name}] = true
		}
	}
	return resources
}

// validateStatusUser validates the user that runs a container's processes.
func validateStatusUser(f validation.Field, user *corev1.ContainerUser, os *corev1.PodOS) {
	if user == nil || user.Linux == nil {
		return
	}
	if os != nil && os.Name == corev1.Windows {
		f.Forbidden("cannot be set for a windows pod")
		return
	}
	f.Child("uid").Between(user.Linux.UID, 0, math.MaxInt32)
	f.Child("gid").Between(user.Linux.GID, 0, math.MaxInt32)
	for i, group := range user.Linux.SupplementalGroups {
		f.Child("supplementalGroups").Index(i).Between(group, 0, math.MaxInt32)
	}
}

// validateClaimStatuses requires that each status belongs to a claim of the pod.
func validateClaimStatuses(f validation.Field, statuses []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim) {
	known, seen := validation.NewDuplicates[string](len(claims)), validation.NewDuplicates[string](len(statuses))
	for i := range claims {
		known.IsDuplicate(claims[i].Name)
	}
	for i := range statuses {
		status, at := &statuses[i], f.Index(i).Child("name")
		if !known.Has(status.Name) {
			at.Invalid(status.Name, "must match the name of an entry in `spec.resourceClaims`")
		}
		if seen.IsDuplicate(status.Name) {
			at.Duplicate(status.Name)
		}
		if name := status.ResourceClaimName; name != nil {
			f.Index(i).Child("resourceClaimName").DNSSubdomain(*name)
		}
	}
}

// validateExtendedClaim validates the status of the claim that was created for the extended resources of a
// pod. The status maps the extended resources of containers to requests of the claim.
func validateExtendedClaim(f validation.Field, status *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec) {
	if status == nil {
		return
	}
	names, requested := map[string]bool{}, map[corev1.ResourceName]bool{}
	for _, containers := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			names[containers[i].Name] = true
			for resource := range containers[i].Resources.Requests {
				requested[resource] = true
			}
		}
	}
	if len(status.RequestMappings) == 0 {
		f.Child("requestMappings").Required("")
	}
	for i := range status.RequestMappings {
		mapping, at := &status.RequestMappings[i], f.Child("requestMappings").Index(i)
		if !names[mapping.ContainerName] {
			at.Child("containerName").Invalid(mapping.ContainerName, "must match the name of an entry in spec.initContainers.name or spec.containers.name")
		}
		switch {
		case mapping.ResourceName == "":
			at.Child("resourceName").Required("")
		case names[mapping.ContainerName] && !requested[corev1.ResourceName(mapping.ResourceName)]:
			at.Child("resourceName").Invalid(mapping.ResourceName, "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests")
		}
		f.Child("requestName").DNSLabel(mapping.RequestName) // as in kube-apiserver, the path does not contain the mapping
	}
	f.Child("resourceClaimName").DNSSubdomain(status.ResourceClaimName)
}
