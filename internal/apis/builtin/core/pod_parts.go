package core

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// podPart is a subresource through which one part of a pod's spec is written,
// and nothing else: take copies that part from the pod that was sent to one
// that is otherwise the old one.
func podPart(name string, take func(to, sent *corev1.Pod), validate func(f validation.Field, pod, old *corev1.Pod)) builtin.Subresource {
	return builtin.PartSubresource(builtin.Part[corev1.Pod]{
		Name: name, Validate: validate,
		Prepare: func(op *builtin.Operation, sent, old *corev1.Pod) {
			pod := old.DeepCopy()
			keepRequest(pod, sent)
			take(pod, sent)
			podspec.DropDisabled(op.Env.Gates, &pod.Spec, &old.Spec)
			*sent = *pod
		},
	})
}

// keepRequest takes over what identifies the pod that was sent, and who sent
// it.
func keepRequest(pod, sent *corev1.Pod) {
	pod.Name, pod.Namespace, pod.UID = sent.Name, sent.Namespace, sent.UID
	pod.ResourceVersion, pod.ManagedFields = sent.ResourceVersion, sent.ManagedFields
}

// isMirror tells that a pod only shows one that a kubelet runs from a file.
func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
