package podsecurity

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// eachContainer calls f with each container of a pod, in the order in which messages list them.
func (p Pod) eachContainer(f func(*corev1.Container)) {
	for i := range p.Spec.InitContainers {
		f(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		f(&p.Spec.Containers[i])
	}
	for i := range p.Spec.EphemeralContainers {
		f((*corev1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// eachSecurityContext calls f with each container that has a security context.
func (p Pod) eachSecurityContext(f func(*corev1.Container, *corev1.SecurityContext)) {
	p.eachContainer(func(c *corev1.Container) {
		if c.SecurityContext != nil {
			f(c, c.SecurityContext)
		}
	})
}

// podContext returns the security context of the pod, or an empty context if the pod has none.
func (p Pod) podContext() corev1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		return corev1.PodSecurityContext{}
	}
	return *p.Spec.SecurityContext
}

// setters identifies the parts of a pod that set forbidden values.
type setters struct {
	pod        bool
	containers []string
}

func (s *setters) any() bool { return s.pod || len(s.containers) > 0 }

// parts describes the pod and the containers that set forbidden values.
func (s *setters) parts() []string {
	var parts []string
	if s.pod {
		parts = append(parts, "pod")
	}
	if len(s.containers) > 0 {
		parts = append(parts, describeContainers(s.containers))
	}
	return parts
}

// String formats the setters for messages.
func (s *setters) String() string { return strings.Join(s.parts(), " and ") }

// valueSet is the set of the forbidden values that a pod contains. The zero value is empty.
type valueSet map[string]struct{}

func (v *valueSet) add(value string) {
	if *v == nil {
		*v = valueSet{}
	}
	(*v)[value] = struct{}{}
}

// sorted returns the values in the order of messages.
func (v valueSet) sorted() []string { return slices.Sorted(maps.Keys(v)) }

// quoted quotes the elements of a list and joins them with commas.
func quoted(list []string) string { return `"` + strings.Join(list, `", "`) + `"` }

// plural returns the singular form if number is 1, otherwise the plural form.
func plural(one, many string, number int) string {
	if number == 1 {
		return one
	}
	return many
}

// describeContainers formats container names for messages.
func describeContainers(names []string) string {
	return plural("container", "containers", len(names)) + " " + quoted(names)
}
