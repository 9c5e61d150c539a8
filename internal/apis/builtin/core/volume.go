package core

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/simulation"
)

// accessModes contains all access modes and their short forms, in display order.
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

// phaseText returns the phase, or Terminating if the object is being deleted.
func phaseText(meta *metav1.ObjectMeta, phase string) string {
	if meta.DeletionTimestamp != nil {
		return "Terminating"
	}
	return phase
}

// className returns the storage class from the beta annotation or, if it is not set, from the field.
func className(meta *metav1.ObjectMeta, field *string) string {
	if name, ok := meta.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return deref(field, "")
}

// deref returns *p, or absent if p is nil.
func deref[S ~string](p *S, absent string) string {
	if p == nil {
		return absent
	}
	return string(*p)
}

func persistentVolumes() builtin.Row[*corev1.PersistentVolume] {
	return builtin.Row[*corev1.PersistentVolume]{
		Names:       builtin.Names{Plural: "persistentvolumes", Kind: "PersistentVolume", ShortNames: []string{"pv"}},
		WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true},
		Strategy: builtin.Strategy[*corev1.PersistentVolume]{
			Default:          defaultPersistentVolume,
			PrepareForCreate: preparePersistentVolume,
			Validate:         validatePersistentVolume, Warnings: persistentVolumeWarnings,
		},
		Status:  &builtin.Status[*corev1.PersistentVolume]{PrepareForUpdate: preparePersistentVolumeStatus},
		Columns: persistentVolumeColumns(),
	}
}

func preparePersistentVolume(op *builtin.Operation, pv *corev1.PersistentVolume) {
	pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: thisSecond(op.Context)}
}

// preparePersistentVolumeStatus sets the time of the last phase change, unless the client has set it.
func preparePersistentVolumeStatus(op *builtin.Operation, pv, old *corev1.PersistentVolume) {
	told, before := pv.Status.LastPhaseTransitionTime, old.Status.LastPhaseTransitionTime
	switch {
	case pv.Status.Phase == old.Status.Phase && told == nil:
		pv.Status.LastPhaseTransitionTime = before
	case pv.Status.Phase != old.Status.Phase && (told == nil || told.Equal(before)):
		pv.Status.LastPhaseTransitionTime = thisSecond(op.Context)
	}
}

func thisSecond(ctx context.Context) *metav1.Time {
	now := metav1.NewTime(simulation.Now(ctx).Truncate(time.Second))
	return &now
}

func persistentVolumeColumns() *builtin.Columns[*corev1.PersistentVolume] {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return &builtin.Columns[*corev1.PersistentVolume]{
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
				className(&pv.ObjectMeta, &pv.Spec.StorageClassName), deref(pv.Spec.VolumeAttributesClassName, builtin.Unset),
				pv.Status.Reason, builtin.Age(pv.CreationTimestamp, now), deref(pv.Spec.VolumeMode, builtin.Unset),
			}
		},
	}
}
