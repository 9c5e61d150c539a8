package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// This file validates the sources of persistent volumes. Secret references in these sources contain a
// namespace, because PersistentVolumes are not namespaced.

type persistentVolume struct {
	name string
	spec *corev1.PersistentVolumeSpec
}

// persistentSource describes a source of a persistent volume and how it is validated. path is the field path
// in error messages; if it is "", name is used.
type persistentSource struct {
	name, path string
	set        bool
	validate   func(validation.Field, persistentVolume)
}

// validatePersistentSources validates the first source of a volume, in the order of kube-apiserver. It rejects
// all other sources, except a flexVolume. It returns the name of the first source.
func validatePersistentSources(f validation.Field, v persistentVolume) (first string) {
	n := 0
	for _, s := range [...]persistentSource{
		{"hostPath", "", v.spec.HostPath != nil, func(f validation.Field, v persistentVolume) { ValidateHostPath(f, v.spec.HostPath) }},
		{"gcePersistentDisk", "persistentDisk", v.spec.GCEPersistentDisk != nil, func(f validation.Field, v persistentVolume) { ValidateGCEDisk(f, v.spec.GCEPersistentDisk) }},
		{"awsElasticBlockStore", "", v.spec.AWSElasticBlockStore != nil, func(f validation.Field, v persistentVolume) { ValidateAWSDisk(f, v.spec.AWSElasticBlockStore) }},
		{"glusterfs", "", v.spec.Glusterfs != nil, validatePersistentGlusterfs},
		{"flocker", "", v.spec.Flocker != nil, func(f validation.Field, v persistentVolume) { ValidateFlocker(f, v.spec.Flocker) }},
		{"nfs", "", v.spec.NFS != nil, func(f validation.Field, v persistentVolume) { ValidateNFS(f, v.spec.NFS) }},
		{"rbd", "", v.spec.RBD != nil, validatePersistentRBD},
		{"quobyte", "", v.spec.Quobyte != nil, func(f validation.Field, v persistentVolume) { ValidateQuobyte(f, v.spec.Quobyte) }},
		{"cephFS", "cephfs", v.spec.CephFS != nil, validatePersistentCephFS},
		{"iscsi", "", v.spec.ISCSI != nil, validatePersistentISCSI},
		{"cinder", "", v.spec.Cinder != nil, validatePersistentCinder},
		{"fc", "", v.spec.FC != nil, func(f validation.Field, v persistentVolume) { ValidateFC(f, v.spec.FC) }},
		{"flexVolume", "", v.spec.FlexVolume != nil, validatePersistentFlex},
		{"azureFile", "", v.spec.AzureFile != nil, validatePersistentAzureFile},
		{"vsphereVolume", "", v.spec.VsphereVolume != nil, func(f validation.Field, v persistentVolume) { ValidateVsphere(f, v.spec.VsphereVolume) }},
		{"photonPersistentDisk", "", v.spec.PhotonPersistentDisk != nil, func(f validation.Field, v persistentVolume) { ValidatePhoton(f, v.spec.PhotonPersistentDisk) }},
		{"portworxVolume", "", v.spec.PortworxVolume != nil, func(f validation.Field, v persistentVolume) { ValidatePortworx(f, v.spec.PortworxVolume) }},
		{"azureDisk", "", v.spec.AzureDisk != nil, func(f validation.Field, v persistentVolume) { ValidateAzureDisk(f, v.spec.AzureDisk) }},
		{"scaleIO", "", v.spec.ScaleIO != nil, validatePersistentScaleIO},
		{"local", "", v.spec.Local != nil, func(f validation.Field, v persistentVolume) { validateLocal(f, v.spec.Local) }},
		{"storageos", "", v.spec.StorageOS != nil, validatePersistentStorageOS},
		{"csi", "", v.spec.CSI != nil, validatePersistentCSI},
	} {
		if !s.set {
			continue
		}
		if n++; n > 1 && s.name != "flexVolume" {
			f.Child(s.name).Forbidden("may not specify more than 1 volume type")
			continue
		}
		if first == "" {
			first = s.name
		}
		if s.path == "" {
			s.path = s.name
		}
		s.validate(f.Child(s.path), v)
	}
	if n == 0 {
		f.Required("must specify a volume type")
	}
	return first
}

func validatePersistentGlusterfs(f validation.Field, v persistentVolume) {
	s := v.spec.Glusterfs
	validateGlusterPath(f, s.EndpointsName, s.Path)
	if namespace := s.EndpointsNamespace; namespace == nil {
		return
	} else if *namespace == "" {
		f.Child("endpointsNamespace").Invalid("", "if the endpointnamespace is set, it must be a valid namespace name")
	} else {
		f.Child("endpointsNamespace").DNSLabel(*namespace)
	}
}

func validatePersistentRBD(f validation.Field, v persistentVolume) {
	validateMonitors(f.Child("monitors"), v.spec.RBD.CephMonitors)
	required(f, "image", v.spec.RBD.RBDImage)
}

func validatePersistentCephFS(f validation.Field, v persistentVolume) {
	validateMonitors(f.Child("monitors"), v.spec.CephFS.Monitors)
}

// maxPortal limits the length of a volume name plus target portal if an initiator name is set. Both are then
// part of the name of an iSCSI interface.
const maxPortal = 64

func validatePersistentISCSI(f validation.Field, v persistentVolume) {
	s := v.spec.ISCSI
	validateISCSITarget(f, s.TargetPortal, s.IQN, s.Lun, s.InitiatorName, iscsiFormat)
	if s.InitiatorName != nil && len(v.name)+len(":")+len(s.TargetPortal) > maxPortal {
		f.Child("targetportal").Invalid(s.TargetPortal, // the lower-case spelling is the same as in kube-apiserver
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")
	}
	if s.SecretRef != nil {
		required(f.Child("secretRef"), "name", s.SecretRef.Name)
	} else if s.DiscoveryCHAPAuth || s.SessionCHAPAuth {
		f.Child("secretRef").Required("")
	}
}

func validatePersistentCinder(f validation.Field, v persistentVolume) {
	required(f, "volumeID", v.spec.Cinder.VolumeID)
	if secret := v.spec.Cinder.SecretRef; secret != nil {
		required(f.Child("secretRef"), "name", secret.Name)
		required(f.Child("secretRef"), "namespace", secret.Namespace)
	}
}

func validatePersistentFlex(f validation.Field, v persistentVolume) {
	ValidateFlex(f, v.spec.FlexVolume.Driver, v.spec.FlexVolume.Options)
}

func validatePersistentAzureFile(f validation.Field, v persistentVolume) {
	s := v.spec.AzureFile
	validateAzureShare(f, s.SecretName, s.ShareName)
	if s.SecretNamespace != nil {
		required(f, "secretNamespace", *s.SecretNamespace)
	}
}

func validatePersistentScaleIO(f validation.Field, v persistentVolume) {
	s := v.spec.ScaleIO
	validateScaleIOVolume(f, s.Gateway, s.System, s.VolumeName)
}

func validatePersistentStorageOS(f validation.Field, v persistentVolume) {
	s := v.spec.StorageOS
	validateStorageOSVolume(f, s.VolumeName, s.VolumeNamespace)
	if s.SecretRef != nil {
		required(f.Child("secretRef"), "name", s.SecretRef.Name)
		required(f.Child("secretRef"), "namespace", s.SecretRef.Namespace)
	}
}

func validatePersistentCSI(f validation.Field, v persistentVolume) {
	s := v.spec.CSI
	ValidateCSIDriverName(f.Child("driver"), s.Driver)
	required(f, "volumeHandle", s.VolumeHandle)
	validateSecretReference(f.Child("controllerPublishSecretRef"), s.ControllerPublishSecretRef)
	validateSecretReference(f.Child("controllerExpandSecretRef"), s.ControllerExpandSecretRef)
	validateSecretReference(f.Child("nodePublishSecretRef"), s.NodePublishSecretRef)
	validateSecretReference(f.Child("nodeExpandSecretRef"), s.NodeExpandSecretRef)
}

func validateSecretReference(f validation.Field, ref *corev1.SecretReference) {
	if ref == nil {
		return
	}
	if ref.Name == "" {
		f.Child("name").Required("")
	} else {
		f.Child("name").DNSSubdomain(ref.Name)
	}
	if ref.Namespace == "" {
		f.Child("namespace").Required("")
	} else {
		f.Child("namespace").DNSLabel(ref.Namespace)
	}
}
