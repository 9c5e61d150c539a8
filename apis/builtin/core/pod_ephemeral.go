package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/apis/builtin"
)

// podEphemeralContainers adds containers to a running pod, for debugging.
func podEphemeralContainers() builtin.Subresource {
	return podPart("ephemeralcontainers", func(to, sent *corev1.Pod) {
		to.Spec.EphemeralContainers = sent.Spec.EphemeralContainers
	}, validateEphemeralContainers)
}

// validateEphemeralContainers lets containers come, and none change or go.
func validateEphemeralContainers(pod, old *corev1.Pod) field.ErrorList {
	if isMirror(old) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	path := field.NewPath("spec", "ephemeralContainers")
	now := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		now[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	var errs field.ErrorList
	for i := range old.Spec.EphemeralContainers {
		before := &old.Spec.EphemeralContainers[i]
		after, ok := now[before.Name]
		if !ok {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name)))
		} else if !equality.Semantic.DeepEqual(before, after) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", before.Name, diff.Diff(before, after))))
		}
	}
	return errs
}
