package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/feature"
)

func persistentVolumeClaims() builtin.Row[*corev1.PersistentVolumeClaim] {
	return builtin.Row[*corev1.PersistentVolumeClaim]{
		Names: builtin.Names{Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", ShortNames: []string{"pvc"}}, Namespaced: true,
		WritePolicy: builtin.WritePolicy{ReturnDeletedObject: true},
		Strategy: builtin.Strategy[*corev1.PersistentVolumeClaim]{
			Default: podspec.DefaultVolumeClaim,
			GatedFields: []builtin.GatedFields[*corev1.PersistentVolumeClaim]{
				{Gate: feature.CrossNamespaceVolumeDataSource, Visit: sourcesElsewhere},
				{Gate: feature.CSIVolumeHealth, Visit: claimHealth},
			},
			PrepareForCreate: prepareVolumeClaim, PrepareForUpdate: prepareVolumeClaimUpdate,
			Validate: validateVolumeClaim, Warnings: volumeClaimWarnings,
		},
		Status:  &builtin.Status[*corev1.PersistentVolumeClaim]{Validate: validateVolumeClaimStatus},
		Columns: persistentVolumeClaimColumns(),
	}
}

func prepareVolumeClaim(op *builtin.Operation, claim *corev1.PersistentVolumeClaim) {
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	prepareVolumeClaimUpdate(op, claim, &corev1.PersistentVolumeClaim{})
}

// prepareVolumeClaimUpdate drops data sources that have no effect. If the old claim has a data source, it
// drops nothing, so that validation detects and rejects changes.
func prepareVolumeClaimUpdate(_ *builtin.Operation, claim, old *corev1.PersistentVolumeClaim) {
	spec, before := &claim.Spec, &old.Spec
	if before.DataSource == nil && before.DataSourceRef == nil && spec.DataSourceRef == nil && !isClassicSource(spec.DataSource) {
		spec.DataSource = nil
	}
	pairDataSources(spec)
}

// sourcesElsewhere visits data sources in other namespaces. If the old claim has any data source reference, it
// counts as a use of the feature, so that validation detects and rejects changes.
func sourcesElsewhere(u *builtin.FieldVisitor, claim *corev1.PersistentVolumeClaim) {
	if !u.Clears() || isElsewhere(claim.Spec.DataSourceRef) {
		builtin.VisitField(u, &claim.Spec.DataSourceRef)
	}
}

// claimHealth visits the volume health in the status.
func claimHealth(u *builtin.FieldVisitor, claim *corev1.PersistentVolumeClaim) {
	builtin.VisitField(u, &claim.Status.HealthStatus)
}

// isElsewhere reports whether a data source specifies a namespace.
func isElsewhere(ref *corev1.TypedObjectReference) bool {
	return ref != nil && deref(ref.Namespace, "") != ""
}

// isClassicSource reports whether source is nil or has a kind that the field dataSource supports. All other
// kinds require dataSourceRef.
func isClassicSource(source *corev1.TypedLocalObjectReference) bool {
	if source == nil {
		return true
	}
	group := deref(source.APIGroup, "")
	return source.Kind == "PersistentVolumeClaim" && group == "" ||
		source.Kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

// pairDataSources copies dataSource to dataSourceRef or vice versa if only one of them is set, for clients
// that use only one of the fields.
func pairDataSources(spec *corev1.PersistentVolumeClaimSpec) {
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case source == nil && ref != nil && !isElsewhere(ref):
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

func persistentVolumeClaimColumns() *builtin.Columns[*corev1.PersistentVolumeClaim] {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return &builtin.Columns[*corev1.PersistentVolumeClaim]{
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
			capacity, modes := "", "" // from the status; empty until the claim is bound
			if claim.Spec.VolumeName != "" {
				capacity = claim.Status.Capacity.Storage().String()
				modes = accessModeText(claim.Status.AccessModes)
			}
			return []any{
				claim.Name, phaseText(&claim.ObjectMeta, string(claim.Status.Phase)), claim.Spec.VolumeName, capacity, modes,
				className(&claim.ObjectMeta, claim.Spec.StorageClassName), deref(claim.Spec.VolumeAttributesClassName, builtin.Unset),
				builtin.Age(claim.CreationTimestamp, now), deref(claim.Spec.VolumeMode, builtin.Unset),
			}
		},
	}
}
