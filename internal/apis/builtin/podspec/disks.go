package podspec

import (
	"net"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// This file validates volumes on remote disks and file systems, in pods and PersistentVolumes.

func required(f validation.Field, name, value string) {
	if value == "" {
		f.Child(name).Required("")
	}
}

// ValidateHostPath validates a volume that mounts a path of the node.
func ValidateHostPath(f validation.Field, s *corev1.HostPathVolumeSource) {
	if s.Path == "" {
		f.Child("path").Required("")
		return
	}
	validateNoBacksteps(f.Child("path"), s.Path)
	if s.Type != nil {
		validation.OneOf(f.Child("type"), *s.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

// validateLocal validates a volume on a local disk of the node.
func validateLocal(f validation.Field, s *corev1.LocalVolumeSource) {
	if s.Path == "" {
		f.Child("path").Required("")
		return
	}
	validateNoBacksteps(f.Child("path"), s.Path)
}

// ValidateNFS validates a volume on an NFS server.
func ValidateNFS(f validation.Field, s *corev1.NFSVolumeSource) {
	required(f, "server", s.Server)
	required(f, "path", s.Path)
	if !strings.HasPrefix(s.Path, "/") {
		f.Child("path").Invalid(s.Path, "must be an absolute path")
	}
}

// ValidateGCEDisk validates a volume on a Google Compute Engine disk.
func ValidateGCEDisk(f validation.Field, s *corev1.GCEPersistentDiskVolumeSource) {
	required(f, "pdName", s.PDName)
	validatePartition(f.Child("partition"), s.Partition)
}

// ValidateAWSDisk validates a volume on an Amazon Elastic Block Store disk.
func ValidateAWSDisk(f validation.Field, s *corev1.AWSElasticBlockStoreVolumeSource) {
	required(f, "volumeID", s.VolumeID)
	validatePartition(f.Child("partition"), s.Partition)
}

func validatePartition(f validation.Field, partition int32) { f.Between(int64(partition), 0, 255) }

func validateISCSI(f validation.Field, volume *corev1.Volume) {
	s := volume.ISCSI
	validateISCSITarget(f, s.TargetPortal, s.IQN, s.Lun, s.InitiatorName, iscsiFormat+" starting with iqn, eui, or naa")
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		f.Child("secretRef").Required("")
	}
	if s.InitiatorName != nil && len(volume.Name)+1+len(s.TargetPortal) > 64 {
		f.Child("targetportal").TooLong(64)
	}
}

// iscsiFormat is the error message for an invalid iSCSI node name.
const iscsiFormat = "must be valid format"

// validateISCSITarget validates an iSCSI volume. start is the error message for a node name whose format is
// unknown.
func validateISCSITarget(f validation.Field, portal, iqn string, lun int32, initiator *string, start string) {
	required(f, "targetPortal", portal)
	if iqn == "" {
		f.Child("iqn").Required("")
	} else {
		validateIQN(f.Child("iqn"), iqn, start)
	}
	f.Child("lun").Between(int64(lun), 0, 255)
	if initiator != nil {
		validateIQN(f.Child("initiatorname"), *initiator, start)
	}
}

// validateIQN validates an iSCSI node name. The name must have the format iqn, which contains a domain, or the
// format eui or naa, which contain a number. start is the error message for other formats.
func validateIQN(f validation.Field, name, start string) {
	switch {
	case !strings.HasPrefix(name, "iqn") && !strings.HasPrefix(name, "eui") && !strings.HasPrefix(name, "naa"):
		f.Invalid(name, start)
	case !regexp.MustCompile(`^(iqn\.\d{4}-\d{2}\.[[:alnum:]-.]+:[^,;*&$|\s]+|eui\.[[:alnum:]]{16}|naa\.[[:alnum:]]{32})$`).MatchString(name):
		f.Invalid(name, iscsiFormat)
	}
}

func validateGlusterfs(f validation.Field, volume *corev1.Volume) {
	validateGlusterPath(f, volume.Glusterfs.EndpointsName, volume.Glusterfs.Path)
}

func validateGlusterPath(f validation.Field, endpoints, path string) {
	required(f, "endpoints", endpoints)
	required(f, "path", path)
}

// ValidateFlocker validates a Flocker volume.
func ValidateFlocker(f validation.Field, s *corev1.FlockerVolumeSource) {
	if s.DatasetName == "" && s.DatasetUUID == "" {
		f.Required("one of datasetName and datasetUUID is required")
	}
	if s.DatasetName != "" && s.DatasetUUID != "" {
		f.Invalid("resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(s.DatasetName, "/") {
		f.Child("datasetName").Invalid(s.DatasetName, "must not contain '/'")
	}
}

func validateRBD(f validation.Field, volume *corev1.Volume) {
	validateMonitors(f.Child("monitors"), volume.RBD.CephMonitors)
	required(f, "image", volume.RBD.RBDImage)
}

// validateMonitors requires at least one monitor of a Ceph cluster.
func validateMonitors(f validation.Field, monitors []string) {
	if len(monitors) == 0 {
		f.Required("")
	}
}

func validateCinder(f validation.Field, volume *corev1.Volume) {
	required(f, "volumeID", volume.Cinder.VolumeID)
	if volume.Cinder.SecretRef != nil {
		required(f.Child("secretRef"), "name", volume.Cinder.SecretRef.Name)
	}
}

func validateCephFS(f validation.Field, volume *corev1.Volume) {
	validateMonitors(f.Child("monitors"), volume.CephFS.Monitors)
}

// ValidateQuobyte validates a Quobyte volume.
func ValidateQuobyte(f validation.Field, s *corev1.QuobyteVolumeSource) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	if s.Registry == "" {
		f.Child("registry").Required(pairs)
	} else if len(s.Tenant) > 64 {
		f.Child("tenant").Required("must be a UUID and may not exceed a length of 64 characters")
	} else {
		for pair := range strings.SplitSeq(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				f.Child("registry").Invalid(s.Registry, pairs)
			}
		}
	}
	required(f, "volume", s.Volume)
}

// ValidateFC validates a Fibre Channel volume.
func ValidateFC(f validation.Field, s *corev1.FCVolumeSource) {
	if len(s.TargetWWNs) == 0 && len(s.WWIDs) == 0 {
		f.Child("targetWWNs").Required("must specify either targetWWNs or wwids, but not both")
	}
	if len(s.TargetWWNs) > 0 && len(s.WWIDs) > 0 {
		f.Child("targetWWNs").Invalid(s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if len(s.TargetWWNs) == 0 {
		return
	}
	if s.Lun == nil {
		f.Child("lun").Required("lun is required if targetWWNs is specified")
	} else {
		f.Child("lun").Between(int64(*s.Lun), 0, 255)
	}
}

// ValidateFlex validates a volume that is mounted by a FlexVolume driver on the node.
func ValidateFlex(f validation.Field, driver string, options map[string]string) {
	required(f, "driver", driver)
	for key := range options {
		domain := strings.ToLower(key)
		if prefix, _, ok := strings.Cut(domain, "/"); ok {
			domain = prefix
		}
		if domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io") {
			f.Child("options").Key(key).Invalid(key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func validateAzureFile(f validation.Field, volume *corev1.Volume) {
	validateAzureShare(f, volume.AzureFile.SecretName, volume.AzureFile.ShareName)
}

func validateAzureShare(f validation.Field, secret, share string) {
	required(f, "secretName", secret)
	required(f, "shareName", share)
}

// ValidateVsphere validates a VMware vSphere volume.
func ValidateVsphere(f validation.Field, s *corev1.VsphereVirtualDiskVolumeSource) {
	required(f, "volumePath", s.VolumePath)
}

// ValidatePhoton validates a VMware Photon volume.
func ValidatePhoton(f validation.Field, s *corev1.PhotonPersistentDiskVolumeSource) {
	required(f, "pdID", s.PdID)
}

// ValidatePortworx validates a Portworx volume.
func ValidatePortworx(f validation.Field, s *corev1.PortworxVolumeSource) {
	required(f, "volumeID", s.VolumeID)
}

// ValidateAzureDisk validates a Microsoft Azure disk volume.
func ValidateAzureDisk(f validation.Field, s *corev1.AzureDiskVolumeSource) {
	required(f, "diskName", s.DiskName)
	required(f, "diskURI", s.DataDiskURI)
	if s.CachingMode != nil {
		validation.OneOf(f.Child("cachingMode"), *s.CachingMode, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	if s.Kind == nil {
		return
	}
	validation.OneOf(f.Child("kind"), *s.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
	managed := *s.Kind == corev1.AzureManagedDisk
	if managed && !strings.HasPrefix(s.DataDiskURI, "/subscriptions/") {
		validation.NotSupported(f.Child("diskURI"), s.DataDiskURI, "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}")
	}
	if !managed && s.DataDiskURI != "" && !strings.HasPrefix(s.DataDiskURI, "https://") {
		validation.NotSupported(f.Child("diskURI"), s.DataDiskURI, "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
	}
}

func validateStorageOS(f validation.Field, volume *corev1.Volume) {
	s := volume.StorageOS
	validateStorageOSVolume(f, s.VolumeName, s.VolumeNamespace)
	if s.SecretRef != nil {
		required(f.Child("secretRef"), "name", s.SecretRef.Name)
	}
}

func validateStorageOSVolume(f validation.Field, volume, namespace string) {
	if volume == "" {
		f.Child("volumeName").Required("")
	} else {
		f.Child("volumeName").DNSLabel(volume)
	}
	if namespace != "" {
		f.Child("volumeNamespace").DNSLabel(namespace)
	}
}

func validateScaleIO(f validation.Field, volume *corev1.Volume) {
	s := volume.ScaleIO
	validateScaleIOVolume(f, s.Gateway, s.System, s.VolumeName)
	if s.SecretRef == nil {
		f.Child("secretRef").Required("")
	}
}

func validateScaleIOVolume(f validation.Field, gateway, system, volume string) {
	required(f, "gateway", gateway)
	required(f, "system", system)
	required(f, "volumeName", volume)
}
