package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// podPart declares a subresource that writes one part of a pod's spec. take copies this part from the
// requested pod to a copy of the old pod.
func podPart(name string, take func(to, sent *corev1.Pod), validate func(f validation.Field, pod, old *corev1.Pod)) builtin.Subresource {
	return builtin.NewObjectSubresource(builtin.ObjectSubresource[*corev1.Pod]{
		Name: name, Validate: validate,
		PrepareForUpdate: func(op *builtin.Operation, sent, old *corev1.Pod) {
			pod := old.DeepCopy()
			keepRequest(pod, sent)
			take(pod, sent)
			podspec.DropDisabledFields(op.Env.Gates, &pod.Spec, &old.Spec)
			*sent = *pod
		},
	})
}

// keepRequest copies the name, namespace, UID, resource version and managed fields of the requested pod.
func keepRequest(pod, sent *corev1.Pod) {
	pod.Name, pod.Namespace, pod.UID = sent.Name, sent.Namespace, sent.UID
	pod.ResourceVersion, pod.ManagedFields = sent.ResourceVersion, sent.ManagedFields
}

// isMirror reports whether a pod is a mirror pod, which represents a static pod of a kubelet.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
