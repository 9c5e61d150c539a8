package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/apis/builtin/validation"
)

func (p *pod) validateVolumes(f validation.Field) {
	names := validation.NewSeen[string](len(p.spec.Volumes))
	var faulty map[int]bool
	for i := range p.spec.Volumes {
		volume, at, before := &p.spec.Volumes[i], f.Index(i), f.Faults()
		if volume.Name == "" {
			at.Child("name").Required("")
		} else {
			at.Child("name").DNSLabel(volume.Name)
			if names.Again(volume.Name) {
				at.Child("name").Duplicate(volume.Name)
			}
		}
		validateSources(at, volume)
		if f.Faults() > before {
			if faulty == nil {
				faulty = make(map[int]bool)
			}
			faulty[i] = true
		}
	}
	p.volumes = indexVolumes(p.spec.Volumes, faulty)
}

// source is one of the places that a volume can come from, and the rule for it.
type source struct {
	name     string
	set      bool
	validate func(validation.Field, *corev1.Volume)
}

// validateSources validates the first source of a volume, in an order that is
// kube-apiserver's, and refuses those after it.
func validateSources(f validation.Field, volume *corev1.Volume) {
	n := 0
	for _, s := range [...]source{
		{"emptyDir", volume.EmptyDir != nil, validateEmptyDir},
		{"hostPath", volume.HostPath != nil, func(f validation.Field, v *corev1.Volume) { ValidateHostPath(f, v.HostPath) }},
		{"gitRepo", volume.GitRepo != nil, validateGitRepo},
		{"gcePersistentDisk", volume.GCEPersistentDisk != nil, func(f validation.Field, v *corev1.Volume) { ValidateGCEDisk(f, v.GCEPersistentDisk) }},
		{"awsElasticBlockStore", volume.AWSElasticBlockStore != nil, func(f validation.Field, v *corev1.Volume) { ValidateAWSDisk(f, v.AWSElasticBlockStore) }},
		{"secret", volume.Secret != nil, validateSecretVolume},
		{"nfs", volume.NFS != nil, func(f validation.Field, v *corev1.Volume) { ValidateNFS(f, v.NFS) }},
		{"iscsi", volume.ISCSI != nil, validateISCSI},
		{"glusterfs", volume.Glusterfs != nil, validateGlusterfs},
		{"flocker", volume.Flocker != nil, func(f validation.Field, v *corev1.Volume) { ValidateFlocker(f, v.Flocker) }},
		{"persistentVolumeClaim", volume.PersistentVolumeClaim != nil, validateClaimVolume},
		{"rbd", volume.RBD != nil, validateRBD},
		{"cinder", volume.Cinder != nil, validateCinder},
		{"cephFS", volume.CephFS != nil, validateCephFS},
		{"quobyte", volume.Quobyte != nil, func(f validation.Field, v *corev1.Volume) { ValidateQuobyte(f, v.Quobyte) }},
		{"downwarAPI", volume.DownwardAPI != nil, validateDownwardVolume}, // as kube-apiserver spells it
		{"fc", volume.FC != nil, func(f validation.Field, v *corev1.Volume) { ValidateFC(f, v.FC) }},
		{"flexVolume", volume.FlexVolume != nil, func(f validation.Field, v *corev1.Volume) { ValidateFlex(f, v.FlexVolume.Driver, v.FlexVolume.Options) }},
		{"configMap", volume.ConfigMap != nil, validateConfigMapVolume},
		{"azureFile", volume.AzureFile != nil, validateAzureFile},
		{"vsphereVolume", volume.VsphereVolume != nil, func(f validation.Field, v *corev1.Volume) { ValidateVsphere(f, v.VsphereVolume) }},
		{"photonPersistentDisk", volume.PhotonPersistentDisk != nil, func(f validation.Field, v *corev1.Volume) { ValidatePhoton(f, v.PhotonPersistentDisk) }},
		{"portworxVolume", volume.PortworxVolume != nil, func(f validation.Field, v *corev1.Volume) { ValidatePortworx(f, v.PortworxVolume) }},
		{"azureDisk", volume.AzureDisk != nil, func(f validation.Field, v *corev1.Volume) { ValidateAzureDisk(f, v.AzureDisk) }},
		{"storageos", volume.StorageOS != nil, validateStorageOS},
		{"projected", volume.Projected != nil, validateProjected},
		{"scaleIO", volume.ScaleIO != nil, validateScaleIO},
		{"csi", volume.CSI != nil, validateCSI},
		{"ephemeral", volume.Ephemeral != nil, validateEphemeralVolume},
		{"image", volume.Image != nil, validateImageVolume},
	} {
		if !s.set {
			continue
		}
		if n++; n > 1 {
			f.Child(s.name).Forbidden("may not specify more than 1 volume type")
			continue
		}
		name := s.name
		if name == "downwarAPI" {
			name = "downwardAPI"
		}
		s.validate(f.Child(name), volume)
	}
	if n == 0 {
		f.Required("must specify a volume type")
	}
}

func validateEmptyDir(f validation.Field, volume *corev1.Volume) {
	if size := volume.EmptyDir.SizeLimit; size != nil && size.Sign() < 0 {
		f.Child("sizeLimit").Forbidden("SizeLimit field must be a valid resource quantity")
	}
}

func validateGitRepo(f validation.Field, volume *corev1.Volume) {
	if volume.GitRepo.Repository == "" {
		f.Child("repository").Required("")
	}
	validateDescending(f.Child("directory"), volume.GitRepo.Directory)
}

func validateClaimVolume(f validation.Field, volume *corev1.Volume) {
	if volume.PersistentVolumeClaim.ClaimName == "" {
		f.Child("claimName").Required("")
	}
}

func validateImageVolume(f validation.Field, volume *corev1.Volume) {
	if volume.Image.Reference == "" {
		f.Child("reference").Required("")
	}
	if volume.Image.PullPolicy != "" {
		validation.OneOf(f.Child("pullPolicy"), volume.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	}
}

// maxCSIDriver is how long the name of a driver is at most.
const maxCSIDriver = 63

func validateCSI(f validation.Field, volume *corev1.Volume) {
	ValidateCSIDriverName(f.Child("driver"), volume.CSI.Driver)
	if ref := volume.CSI.NodePublishSecretRef; ref != nil {
		if ref.Name == "" {
			f.Child("nodePublishSecretRef").Child("name").Required("")
		} else {
			f.Child("name").DNSSubdomain(ref.Name)
		}
	}
}

// ValidateCSIDriverName has the rules of the name of a CSI driver.
func ValidateCSIDriverName(f validation.Field, name string) {
	if name == "" {
		f.Required("")
	}
	if len(name) > maxCSIDriver {
		f.TooLong(maxCSIDriver)
	}
	if name != "" {
		f.InvalidFor(name, apivalidation.IsDNS1123Subdomain(strings.ToLower(name)))
	}
}

func validateEphemeralVolume(f validation.Field, volume *corev1.Volume) {
	template := volume.Ephemeral.VolumeClaimTemplate
	f = f.Child("volumeClaimTemplate")
	if template == nil {
		f.Required("")
		return
	}
	ValidateClaimMetadata(f.Child("metadata"), &template.ObjectMeta)
	ValidateClaimSpec(f.Child("spec"), &template.Spec)
}

// ValidateClaimMetadata has the rules of the metadata of what claims are made from:
// it has labels and annotations alone.
func ValidateClaimMetadata(f validation.Field, meta *metav1.ObjectMeta) {
	f.Child("annotations").Annotations(meta.Annotations)
	f.Child("labels").Labels(meta.Labels)
	for _, field := range [...]setField{
		{"name", meta.Name != ""}, {"generateName", meta.GenerateName != ""}, {"namespace", meta.Namespace != ""},
		{"selfLink", meta.SelfLink != ""}, {"uID", meta.UID != ""}, {"resourceVersion", meta.ResourceVersion != ""},
		{"generation", meta.Generation != 0}, {"creationTimestamp", !meta.CreationTimestamp.IsZero()},
		{"deletionTimestamp", meta.DeletionTimestamp != nil}, {"deletionGracePeriodSeconds", meta.DeletionGracePeriodSeconds != nil},
		{"ownerReferences", len(meta.OwnerReferences) > 0}, {"finalizers", len(meta.Finalizers) > 0},
		{"managedFields", len(meta.ManagedFields) > 0},
	} {
		if field.set {
			f.Child(field.name).Forbidden("cannot be set")
		}
	}
}
