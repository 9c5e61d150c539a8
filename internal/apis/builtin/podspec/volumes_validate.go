package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/rest/names"
)

func (p *pod) validateVolumes(f validation.Field) {
	names := validation.NewDuplicates[string](len(p.spec.Volumes))
	anyTokenPath := p.old != nil && f.Violates(func(f validation.Field) { validateTokenPaths(f, p.old) })
	var faulty map[int]bool
	for i := range p.spec.Volumes {
		volume, at, before := &p.spec.Volumes[i], f.Index(i), f.ErrorCount()
		if volume.Name == "" {
			at.Child("name").Required("")
		} else {
			at.Child("name").DNSLabel(volume.Name)
			if names.Has(volume.Name) {
				at.Child("name").Duplicate(volume.Name)
			}
		}
		validateSources(at, volume)
		p.validateInPod(at, volume, anyTokenPath)
		if f.ErrorCount() > before {
			if faulty == nil {
				faulty = make(map[int]bool)
			}
			faulty[i] = true
			continue
		}
		names.IsDuplicate(volume.Name)
	}
	p.volumes = indexVolumes(p.spec.Volumes, faulty)
}

// validateInPod contains the rules for a volume that depend on its pod and on the old volumes.
func (p *pod) validateInPod(f validation.Field, volume *corev1.Volume, anyTokenPath bool) {
	if volume.Ephemeral != nil {
		p.validateClaimName(f.Child("name"), volume.Name)
	}
	if volume.Projected == nil {
		return
	}
	for i := range volume.Projected.Sources {
		token := volume.Projected.Sources[i].ServiceAccountToken
		if token == nil {
			continue
		}
		if p.options.Pod && p.spec.ServiceAccountName == "" {
			f.Child("projected").Child("sources").Index(i).Child("serviceAccountToken").
				Forbidden("must not be specified when serviceAccountName is not set")
		}
		if token.Path != "" && !anyTokenPath {
			validateFilePath(f.Child("projected").Child("path"), token.Path)
		}
	}
}

// validateTokenPaths validates the paths of tokens in all volumes. Stored pods may violate this rule, because
// they may be older than it.
func validateTokenPaths(f validation.Field, spec *corev1.PodSpec) {
	eachProjection(spec, func(source *corev1.VolumeProjection) {
		if source.ServiceAccountToken != nil {
			validateFilePath(f, source.ServiceAccountToken.Path)
		}
	})
}

// validateClaimName validates the name of the claim of an ephemeral volume. This name consists of the names of
// the pod and the volume.
func (p *pod) validateClaimName(f validation.Field, name string) {
	pod := p.options.Name
	if pod == "" || name == "" || names.IsSubdomain(pod) && names.IsSubdomain(name) && len(pod)+1+len(name) <= apivalidation.DNS1123SubdomainMaxLength {
		return
	}
	claim := pod + "-" + name
	for _, problem := range apivalidation.IsDNS1123Subdomain(claim) {
		f.Invalid(name, fmt.Sprintf("PVC name %q: %s", claim, problem))
	}
}

// source describes a volume source and how it is validated.
type source struct {
	name     string
	set      bool
	validate func(validation.Field, *corev1.Volume)
}

// validateSources validates the first source of a volume, in the order of kube-apiserver, and rejects the
// remaining sources.
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
		{"downwarAPI", volume.DownwardAPI != nil, validateDownwardVolume}, // the misspelling is the same as in kube-apiserver
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
	if mode := volume.EmptyDir.Mode; mode != nil && (*mode < 0 || *mode > 0o1777) {
		f.Child("mode").Invalid(*mode, "must be a number between 0 and 01777 (octal), both inclusive")
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

// maxCSIDriver is the maximum length of a CSI driver name.
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

// ValidateCSIDriverName validates the name of a CSI driver.
func ValidateCSIDriverName(f validation.Field, name string) {
	if name == "" {
		f.Required("")
	}
	if len(name) > maxCSIDriver {
		f.TooLong(maxCSIDriver)
	}
	if problems := apivalidation.IsDNS1123Subdomain(strings.ToLower(name)); name != "" && len(problems) > 0 {
		f.InvalidFor(name, problems)
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
	ValidateClaimSpec(f.Child("spec"), &template.Spec, nil)
}

// ValidateClaimMetadata validates the metadata of a claim template. It may contain only labels and
// annotations.
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
