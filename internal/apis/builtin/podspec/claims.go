package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// ValidateClaimSpec validates the spec of a PersistentVolumeClaim, or of the claim template of a StatefulSet
// or ephemeral volume. old is nil on creation.
func ValidateClaimSpec(f validation.Field, spec, old *corev1.PersistentVolumeClaimSpec) {
	if len(spec.AccessModes) == 0 {
		f.Child("accessModes").Required("at least 1 access mode is required")
	}
	validateAccessModes(f.Child("accessModes"), spec.AccessModes)
	if old == nil || validation.Changed(spec.Selector, old.Selector) {
		f.Child("selector").LabelSelector(spec.Selector)
	}
	storage, at := spec.Resources.Requests[corev1.ResourceStorage], f.Child("resources").Key(string(corev1.ResourceStorage))
	if _, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		at.Required("")
	} else if storage.Sign() <= 0 {
		at.Invalid(storage.String(), "must be greater than zero")
	}
	if class := spec.StorageClassName; class != nil && *class != "" {
		f.Child("storageClassName").DNSSubdomain(*class)
	}
	if class := spec.VolumeAttributesClassName; class != nil && *class != "" {
		f.Child("volumeAttributesClassName").DNSSubdomain(*class)
	}
	validateVolumeMode(f.Child("volumeMode"), spec.VolumeMode)
	validateDataSources(f, spec, old)
}

// validateAccessModes validates access modes. ReadWriteOncePod cannot be combined with other modes.
func validateAccessModes(f validation.Field, modes []corev1.PersistentVolumeAccessMode) {
	alone, shared := false, false
	for _, mode := range modes {
		switch mode {
		case corev1.ReadWriteOncePod:
			alone = true
		case corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce:
			shared = true
		default:
			validation.NotSupported(f, mode, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		}
	}
	if alone && shared {
		f.Forbidden("may not use ReadWriteOncePod with other access modes")
	}
}

// validateDataSources requires that dataSource equals dataSourceRef, which supersedes it, if both are set.
// Stored claims may have invalid API groups.
func validateDataSources(f validation.Field, spec, old *corev1.PersistentVolumeClaimSpec) {
	anyGroup := old != nil && namesGroup(old)
	if s := spec.DataSource; s != nil {
		validateDataSource(f.Child("dataSource"), s.Name, s.Kind, s.APIGroup, anyGroup)
	}
	ref := spec.DataSourceRef
	if ref == nil {
		return
	}
	at := f.Child("dataSourceRef")
	validateDataSource(at, ref.Name, ref.Kind, ref.APIGroup, anyGroup)
	if ref.Namespace != nil && *ref.Namespace != "" {
		at.Child("namespace").DNSLabel(*ref.Namespace)
		if spec.DataSource != nil {
			f.Invalid(spec.DataSource, "may not be specified when dataSourceRef.namespace is specified")
		}
	} else if s := spec.DataSource; s != nil && (s.Name != ref.Name || s.Kind != ref.Kind || groupOf(s.APIGroup) != groupOf(ref.APIGroup)) {
		f.Invalid(spec.DataSource, "must match dataSourceRef")
	}
}

func namesGroup(spec *corev1.PersistentVolumeClaimSpec) bool {
	return spec.DataSource != nil && spec.DataSource.APIGroup != nil || spec.DataSourceRef != nil && spec.DataSourceRef.APIGroup != nil
}

func validateDataSource(f validation.Field, name, kind string, group *string, anyGroup bool) {
	if name == "" {
		f.Child("name").Required("")
	}
	if kind == "" {
		f.Child("kind").Required("")
	}
	if groupOf(group) == "" && kind != "PersistentVolumeClaim" {
		f.Invalid(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	} else if groupOf(group) != "" && !anyGroup {
		f.Child("apiGroup").DNSSubdomain(*group)
	}
}

func groupOf(group *string) string {
	if group == nil {
		return ""
	}
	return *group
}
