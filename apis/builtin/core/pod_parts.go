package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/apis/builtin/podspec"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/registry"
	"mainstay.dev/mainstay/rest"
)

// podPart is a subresource through which one part of a pod's spec is written,
// and nothing else: take copies that part from the pod that was sent to one
// that is otherwise the old one.
func podPart(name string, take func(to, sent *corev1.Pod), validate func(pod, old *corev1.Pod) field.ErrorList) builtin.Subresource {
	return builtin.Subresource{Name: name, Storage: func(_ *builtin.Env, store *registry.Store) rest.Storage {
		strategy := &registry.Strategy{
			Namespaced: true, Generation: true,
			SpecChanged: func(obj, old codec.Object) bool {
				return !equality.Semantic.DeepEqual(&obj.(*corev1.Pod).Spec, &old.(*corev1.Pod).Spec)
			},
			PrepareForUpdate: func(_ context.Context, obj, old codec.Object) {
				sent, pod := obj.(*corev1.Pod), old.(*corev1.Pod).DeepCopy()
				keepRequest(pod, sent)
				take(pod, sent)
				podspec.DropDisabled(&pod.Spec, &old.(*corev1.Pod).Spec)
				*sent = *pod
			},
			ValidateUpdate: func(_ context.Context, obj, old codec.Object) field.ErrorList {
				return validate(obj.(*corev1.Pod), old.(*corev1.Pod))
			},
		}
		return &registry.Part{Store: store, Strategy: strategy}
	}}
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
