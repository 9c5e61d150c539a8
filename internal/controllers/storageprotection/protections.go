package storageprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// protections returns the properties of the three controllers.
func protections() []*protection {
	volumes, claims := corev1.Resource("persistentvolumes"), corev1.Resource("persistentvolumeclaims")
	return []*protection{
		{
			name: "persistentvolumeclaim-protection-controller", account: "pvc-protection-controller",
			resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), finalizer: "kubernetes.io/pvc-protection",
			usedBy: []schema.GroupResource{corev1.Resource("pods")}, uses: podUsesClaim,
		},
		{
			name: "persistentvolume-protection-controller", account: "pv-protection-controller",
			resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes"), finalizer: "kubernetes.io/pv-protection",
			uses: func(_, volume codec.Object) bool {
				return volume.(*corev1.PersistentVolume).Status.Phase == corev1.VolumeBound
			},
		},
		{
			name: "volumeattributesclass-protection-controller", account: "volumeattributesclass-protection-controller",
			resource: storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses"), finalizer: "kubernetes.io/vac-protection",
			usedBy: []schema.GroupResource{claims, volumes}, uses: usesClass,
		},
	}
}

// isUsedByAny reports whether any object in the storage users uses the object used.
func (c *Controller) isUsedByAny(ctx context.Context, users storage.Interface, used codec.Object) (bool, error) {
	list, err := users.List(ctx, used.GetNamespace(), rest.ListOptions{})
	if err != nil {
		return false, err
	}
	for record, err := range list.Items {
		if err != nil {
			return false, err
		}
		user, err := record.Shared()
		if err != nil {
			return false, err
		}
		if c.uses(user, used) {
			return true, nil
		}
	}
	return false, nil
}

// podUsesClaim reports whether a pod that is bound to a node uses a claim. A pod without a node does not count,
// because the kubelet does not start a pod whose claim is being deleted.
func podUsesClaim(user, used codec.Object) bool {
	pod, claim := user.(*corev1.Pod), used.(*corev1.PersistentVolumeClaim)
	if pod.Spec.NodeName == "" {
		return false
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim.Name {
			return true
		}
		if volume.Ephemeral != nil && !isTerminated(pod) && pod.Name+"-"+volume.Name == claim.Name && metav1.IsControlledBy(claim, pod) {
			return true
		}
	}
	return false
}

// isTerminated reports whether the kubelet has terminated a pod.
func isTerminated(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && grace != nil && *grace == 0
}

// usesClass reports whether a claim or volume uses a volume attributes class, or whether a claim is changing to
// it.
func usesClass(user, used codec.Object) bool {
	class := used.GetName()
	names := func(name *string) bool { return name != nil && *name == class }
	switch user := user.(type) {
	case *corev1.PersistentVolumeClaim:
		modifying := user.Status.ModifyVolumeStatus
		return names(user.Spec.VolumeAttributesClassName) || names(user.Status.CurrentVolumeAttributesClassName) ||
			modifying != nil && modifying.TargetVolumeAttributesClassName == class
	case *corev1.PersistentVolume:
		return names(user.Spec.VolumeAttributesClassName)
	}
	return false
}
