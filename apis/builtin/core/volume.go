package core

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// accessModes are all modes with their short forms, in the order shown.
var accessModes = [...]struct {
	mode  corev1.PersistentVolumeAccessMode
	short string
}{
	{corev1.ReadWriteOnce, "RWO"},
	{corev1.ReadOnlyMany, "ROX"},
	{corev1.ReadWriteMany, "RWX"},
	{corev1.ReadWriteOncePod, "RWOP"},
}

func accessModeText(modes []corev1.PersistentVolumeAccessMode) string {
	var texts []string
	for _, m := range accessModes {
		if slices.Contains(modes, m.mode) {
			texts = append(texts, m.short)
		}
	}
	return strings.Join(texts, ",")
}

// phaseText shows a phase, unless the object is going.
func phaseText(meta *metav1.ObjectMeta, phase string) string {
	if meta.DeletionTimestamp != nil {
		return "Terminating"
	}
	return phase
}

// className is the storage class, in the older form of an annotation or in
// the field.
func className(meta *metav1.ObjectMeta, field *string) string {
	if name, ok := meta.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return deref(field, "")
}

// deref is what a pointer points at, or another value where it is nil.
func deref[S ~string](p *S, absent string) string {
	if p == nil {
		return absent
	}
	return string(*p)
}

func persistentVolumeColumns() *builtin.Columns[corev1.PersistentVolume] {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return &builtin.Columns[corev1.PersistentVolume]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Capacity", "string", spec["capacity"]),
			builtin.Column("Access Modes", "string", spec["accessModes"]),
			builtin.Column("Reclaim Policy", "string", spec["persistentVolumeReclaimPolicy"]),
			builtin.Column("Status", "string", status["phase"]),
			builtin.Column("Claim", "string", spec["claimRef"]),
			builtin.Column("StorageClass", "string", "StorageClass of the pv"),
			builtin.Column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pv"),
			builtin.Column("Reason", "string", status["reason"]),
			builtin.AgeColumn(),
			builtin.WideColumn("VolumeMode", "string", spec["volumeMode"]),
		},
		Cells: func(pv *corev1.PersistentVolume, now time.Time) []any {
			claim := ""
			if ref := pv.Spec.ClaimRef; ref != nil {
				claim = ref.Namespace + "/" + ref.Name
			}
			return []any{
				pv.Name, pv.Spec.Capacity.Storage().String(), accessModeText(pv.Spec.AccessModes),
				string(pv.Spec.PersistentVolumeReclaimPolicy), phaseText(&pv.ObjectMeta, string(pv.Status.Phase)), claim,
				className(&pv.ObjectMeta, &pv.Spec.StorageClassName), deref(pv.Spec.VolumeAttributesClassName, unset),
				pv.Status.Reason, builtin.Age(pv.CreationTimestamp, now), deref(pv.Spec.VolumeMode, unset),
			}
		},
	}
}

func persistentVolumeClaimColumns() *builtin.Columns[corev1.PersistentVolumeClaim] {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return &builtin.Columns[corev1.PersistentVolumeClaim]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Status", "string", status["phase"]),
			builtin.Column("Volume", "string", spec["volumeName"]),
			builtin.Column("Capacity", "string", status["capacity"]),
			builtin.Column("Access Modes", "string", status["accessModes"]),
			builtin.Column("StorageClass", "string", "StorageClass of the pvc"),
			builtin.Column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pvc"),
			builtin.AgeColumn(),
			builtin.WideColumn("VolumeMode", "string", spec["volumeMode"]),
		},
		Cells: func(claim *corev1.PersistentVolumeClaim, now time.Time) []any {
			capacity, modes := "", "" // what the volume has, once there is one
			if claim.Spec.VolumeName != "" {
				capacity = claim.Status.Capacity.Storage().String()
				modes = accessModeText(claim.Status.AccessModes)
			}
			return []any{
				claim.Name, phaseText(&claim.ObjectMeta, string(claim.Status.Phase)), claim.Spec.VolumeName, capacity, modes,
				className(&claim.ObjectMeta, claim.Spec.StorageClassName), deref(claim.Spec.VolumeAttributesClassName, unset),
				builtin.Age(claim.CreationTimestamp, now), deref(claim.Spec.VolumeMode, unset),
			}
		},
	}
}
