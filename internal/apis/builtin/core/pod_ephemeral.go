package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// podEphemeralContainers declares the /ephemeralcontainers subresource, which adds containers to a running pod
// for debugging.
func podEphemeralContainers() builtin.Subresource {
	return podPart("ephemeralcontainers", func(to, sent *corev1.Pod) {
		to.Spec.EphemeralContainers = sent.Spec.EphemeralContainers
	}, validateEphemeralContainers)
}

// validateEphemeralContainers accepts additional containers, but rejects changes and removals of existing
// containers.
func validateEphemeralContainers(f validation.Field, pod, old *corev1.Pod) {
	if isMirror(old) {
		f.Child("").Forbidden("static pods do not support ephemeral containers")
		return
	}
	validateWholePod(f, pod, old)
	validateAnnotationsKept(f, pod, old)
	at := f.Child("spec").Child("ephemeralContainers")
	now := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		now[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		before := &old.Spec.EphemeralContainers[i]
		after, ok := now[before.Name]
		if !ok {
			at.Forbidden(fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name))
		} else if validation.Changed(after, before) {
			at.Forbidden(fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", before.Name, validation.Diff(before, after)))
		}
	}
}
