package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// Default values of volumes.
const (
	fileMode       = 0o644
	tokenLifetime  = 3600 // in seconds
	iscsiInterface = "default"
	rbdPool        = "rbd"
	rbdUser        = "admin"
	rbdKeyring     = "/etc/ceph/keyring"
	scaleIOMode    = "ThinProvisioned"
	scaleIOFSType  = "xfs"
	azureFSType    = "ext4"
)

func defaultVolume(volume *corev1.Volume) {
	if volume.VolumeSource == (corev1.VolumeSource{}) {
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	if s := volume.Secret; s != nil {
		builtin.SetDefault(&s.DefaultMode, fileMode)
	}
	if s := volume.ConfigMap; s != nil {
		builtin.SetDefault(&s.DefaultMode, fileMode)
	}
	if s := volume.DownwardAPI; s != nil {
		builtin.SetDefault(&s.DefaultMode, fileMode)
		defaultItems(s.Items)
	}
	if s := volume.Projected; s != nil {
		builtin.SetDefault(&s.DefaultMode, fileMode)
		defaultProjections(s.Sources)
	}
	if s := volume.Image; s != nil && s.PullPolicy == "" {
		s.PullPolicy = pullPolicy(s.Reference)
	}
	if s := volume.ISCSI; s != nil {
		builtin.SetDefaultValue(&s.ISCSIInterface, iscsiInterface)
	}
	if s := volume.RBD; s != nil {
		defaultRBD(&s.RBDPool, &s.RadosUser, &s.Keyring)
	}
	if s := volume.ScaleIO; s != nil {
		builtin.SetDefaultValue(&s.StorageMode, scaleIOMode)
		builtin.SetDefaultValue(&s.FSType, scaleIOFSType)
	}
	if s := volume.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		defaultClaimSpec(&s.VolumeClaimTemplate.Spec)
	}
	defaultHostPath(volume.HostPath)
	defaultAzureDisk(volume.AzureDisk)
}

func defaultItems(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultProjections(sources []corev1.VolumeProjection) {
	for i := range sources {
		if api := sources[i].DownwardAPI; api != nil {
			defaultItems(api.Items)
		}
		if token := sources[i].ServiceAccountToken; token != nil {
			builtin.SetDefault(&token.ExpirationSeconds, tokenLifetime)
		}
	}
}

func defaultHostPath(s *corev1.HostPathVolumeSource) {
	if s != nil {
		builtin.SetDefault(&s.Type, corev1.HostPathUnset)
	}
}

func defaultRBD(pool, user, keyring *string) {
	builtin.SetDefaultValue(pool, rbdPool)
	builtin.SetDefaultValue(user, rbdUser)
	builtin.SetDefaultValue(keyring, rbdKeyring)
}

func defaultAzureDisk(s *corev1.AzureDiskVolumeSource) {
	if s != nil {
		builtin.SetDefault(&s.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		builtin.SetDefault(&s.FSType, azureFSType)
		builtin.SetDefault(&s.ReadOnly, false)
		builtin.SetDefault(&s.Kind, corev1.AzureSharedBlobDisk)
	}
}

// DefaultPersistentVolumeSpec sets the defaults of the volume spec in a PersistentVolume or VolumeAttachment.
func DefaultPersistentVolumeSpec(spec *corev1.PersistentVolumeSpec) {
	RoundUpQuantities(spec.Capacity)
	if s := spec.ISCSI; s != nil {
		builtin.SetDefaultValue(&s.ISCSIInterface, iscsiInterface)
	}
	if s := spec.RBD; s != nil {
		defaultRBD(&s.RBDPool, &s.RadosUser, &s.Keyring)
	}
	if s := spec.ScaleIO; s != nil {
		builtin.SetDefaultValue(&s.StorageMode, scaleIOMode)
		builtin.SetDefaultValue(&s.FSType, scaleIOFSType)
	}
	defaultHostPath(spec.HostPath)
	defaultAzureDisk(spec.AzureDisk)
}

// DefaultVolumeClaim sets the defaults of a PersistentVolumeClaim object or of a claim template in a
// StatefulSet.
func DefaultVolumeClaim(claim *corev1.PersistentVolumeClaim) {
	builtin.SetDefaultValue(&claim.Status.Phase, corev1.ClaimPending)
	defaultClaimSpec(&claim.Spec)
	RoundUpQuantities(claim.Status.Capacity)
	RoundUpQuantities(claim.Status.AllocatedResources)
}

func defaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	builtin.SetDefault(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUpQuantities(spec.Resources.Limits)
	RoundUpQuantities(spec.Resources.Requests)
}
