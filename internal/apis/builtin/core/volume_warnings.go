package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// persistentVolumeWarnings returns warnings for deprecated fields and unsupported volume types.
func persistentVolumeWarnings(_ *builtin.Operation, pv, _ *corev1.PersistentVolume) []string {
	warnings := classWarnings(pv.Annotations)
	if _, ok := pv.Annotations[corev1.MountOptionAnnotation]; ok {
		warnings = append(warnings, "metadata.annotations["+corev1.MountOptionAnnotation+`]: deprecated since v1.31; use "mountOptions" attribute instead`)
	}
	spec := &pv.Spec
	if spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		warnings = append(warnings, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "+
			"Instead, the recommended approach is to use dynamic provisioning.")
	}
	if affinity := spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		warnings = append(warnings, podspec.NodeSelectorWarnings("spec.nodeAffinity.required", affinity.Required)...)
	}
	for _, source := range [...]struct {
		name, since, until string
		set                bool
	}{
		{"cephfs", "v1.28", "v1.31", spec.CephFS != nil},
		{"photonPersistentDisk", "v1.11", "v1.16", spec.PhotonPersistentDisk != nil},
		{"scaleIO", "v1.16", "v1.22", spec.ScaleIO != nil},
		{"storageOS", "v1.22", "v1.25", spec.StorageOS != nil},
		{"glusterfs", "v1.25", "v1.26", spec.Glusterfs != nil},
		{"rbd", "v1.28", "v1.31", spec.RBD != nil},
	} {
		if source.set {
			warnings = append(warnings, fmt.Sprintf("spec.%s: deprecated in %s, non-functional in %s+", source.name, source.since, source.until))
		}
	}
	return warnings
}

// volumeClaimWarnings returns warnings for deprecated fields and for quantities that are not whole bytes.
func volumeClaimWarnings(_ *builtin.Operation, claim, _ *corev1.PersistentVolumeClaim) []string {
	warnings := classWarnings(claim.Annotations)
	for _, list := range [...]struct {
		name      string
		resources corev1.ResourceList
	}{{"requests", claim.Spec.Resources.Requests}, {"limits", claim.Spec.Resources.Limits}} {
		if quantity := list.resources[corev1.ResourceStorage]; quantity.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("spec.resources.%s[storage]: fractional byte value %q is invalid, must be an integer", list.name, quantity.String()))
		}
	}
	return warnings
}

func classWarnings(annotations map[string]string) []string {
	if _, ok := annotations[corev1.BetaStorageClassAnnotation]; !ok {
		return nil
	}
	return []string{"metadata.annotations[" + corev1.BetaStorageClassAnnotation + `]: deprecated since v1.8; use "storageClassName" attribute instead`}
}
