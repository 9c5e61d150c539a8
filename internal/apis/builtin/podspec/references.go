package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// EachSecret calls f with the name of each secret that a pod references directly, but not of secrets that its
// PersistentVolumes reference. Names can repeat.
func EachSecret(spec *corev1.PodSpec, f func(name string)) {
	call := named(f)
	for i := range spec.ImagePullSecrets {
		call(spec.ImagePullSecrets[i].Name)
	}
	eachContainer(spec, func(c *corev1.Container) {
		for i := range c.EnvFrom {
			if ref := c.EnvFrom[i].SecretRef; ref != nil {
				call(ref.Name)
			}
		}
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.SecretKeyRef != nil {
				call(from.SecretKeyRef.Name)
			}
		}
	})
	for i := range spec.Volumes {
		call(secretOf(&spec.Volumes[i].VolumeSource))
	}
	eachProjection(spec, func(s *corev1.VolumeProjection) {
		if s.Secret != nil {
			call(s.Secret.Name)
		}
	})
}

// secretOf returns the name of the secret that a volume references, or "" if the volume references no secret.
// It ignores projected volumes.
func secretOf(v *corev1.VolumeSource) string {
	var ref *corev1.LocalObjectReference
	switch {
	case v.Secret != nil:
		return v.Secret.SecretName
	case v.AzureFile != nil:
		return v.AzureFile.SecretName
	case v.CephFS != nil:
		ref = v.CephFS.SecretRef
	case v.Cinder != nil:
		ref = v.Cinder.SecretRef
	case v.FlexVolume != nil:
		ref = v.FlexVolume.SecretRef
	case v.RBD != nil:
		ref = v.RBD.SecretRef
	case v.ScaleIO != nil:
		ref = v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		ref = v.ISCSI.SecretRef
	case v.StorageOS != nil:
		ref = v.StorageOS.SecretRef
	case v.CSI != nil:
		ref = v.CSI.NodePublishSecretRef
	}
	if ref == nil {
		return ""
	}
	return ref.Name
}

// EachConfigMap calls f with the name of each ConfigMap that a pod references. Names can repeat.
func EachConfigMap(spec *corev1.PodSpec, f func(name string)) {
	call := named(f)
	eachContainer(spec, func(c *corev1.Container) {
		for i := range c.EnvFrom {
			if ref := c.EnvFrom[i].ConfigMapRef; ref != nil {
				call(ref.Name)
			}
		}
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
				call(from.ConfigMapKeyRef.Name)
			}
		}
	})
	for i := range spec.Volumes {
		if m := spec.Volumes[i].ConfigMap; m != nil {
			call(m.Name)
		}
	}
	eachProjection(spec, func(s *corev1.VolumeProjection) {
		if s.ConfigMap != nil {
			call(s.ConfigMap.Name)
		}
	})
}

// EachClaim calls f with the name of each PersistentVolumeClaim that a pod uses.
func EachClaim(pod *corev1.Pod, f func(name string)) {
	for i := range pod.Spec.Volumes {
		if name := ClaimName(pod.Name, &pod.Spec.Volumes[i]); name != "" {
			f(name)
		}
	}
}

// ClaimName returns the name of the PersistentVolumeClaim that a volume of a pod uses, or "" if it uses none.
// The claim of an ephemeral volume is named after the pod and the volume.
func ClaimName(pod string, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod + "-" + v.Name
	}
	return ""
}

// EachResourceClaim calls f with the name of each ResourceClaim of a pod, if it is known. The names of claims
// that are created from templates are taken from the status of the pod.
func EachResourceClaim(pod *corev1.Pod, f func(name string)) {
	call := named(f)
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		if claim.ResourceClaimName != nil {
			call(*claim.ResourceClaimName)
			continue
		}
		for j := range pod.Status.ResourceClaimStatuses {
			if made := &pod.Status.ResourceClaimStatuses[j]; made.Name == claim.Name && made.ResourceClaimName != nil {
				call(*made.ResourceClaimName)
			}
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		call(extended.ResourceClaimName)
	}
}

// EachVolumeSecret calls f with the namespace and name of each secret that the kubelet needs to mount a
// PersistentVolume. If a reference has no namespace, which older volume types allow, the namespace is that of
// the volume's claim.
func EachVolumeSecret(pv *corev1.PersistentVolume, f func(namespace, name string)) {
	call := func(ref *corev1.SecretReference, namespace string) {
		if ref == nil || ref.Name == "" {
			return
		}
		if ref.Namespace != "" {
			namespace = ref.Namespace
		}
		f(namespace, ref.Name)
	}
	ofClaim := ""
	if pv.Spec.ClaimRef != nil {
		ofClaim = pv.Spec.ClaimRef.Namespace
	}
	switch v := &pv.Spec.PersistentVolumeSource; {
	case v.AzureFile != nil:
		call(&corev1.SecretReference{Namespace: ptr.Deref(v.AzureFile.SecretNamespace, ""), Name: v.AzureFile.SecretName}, ofClaim)
	case v.CephFS != nil:
		call(v.CephFS.SecretRef, ofClaim)
	case v.Cinder != nil:
		call(v.Cinder.SecretRef, "")
	case v.FlexVolume != nil:
		call(v.FlexVolume.SecretRef, ofClaim)
	case v.RBD != nil:
		call(v.RBD.SecretRef, ofClaim)
	case v.ScaleIO != nil:
		call(v.ScaleIO.SecretRef, ofClaim)
	case v.ISCSI != nil:
		call(v.ISCSI.SecretRef, ofClaim)
	case v.StorageOS != nil && v.StorageOS.SecretRef != nil:
		call(&corev1.SecretReference{Namespace: v.StorageOS.SecretRef.Namespace, Name: v.StorageOS.SecretRef.Name}, "")
	case v.CSI != nil:
		call(v.CSI.NodePublishSecretRef, "")
		call(v.CSI.NodeStageSecretRef, "")
		call(v.CSI.NodeExpandSecretRef, "")
	}
}

// named returns a function that calls f unless the name is empty.
func named(f func(string)) func(string) {
	return func(name string) {
		if name != "" {
			f(name)
		}
	}
}

// FirstReferencedKind returns the first kind of API object that a pod references, or "" if the pod references
// none. The name of the kind is the one that kube-apiserver uses in messages. An unknown volume type counts as
// a reference.
func FirstReferencedKind(spec *corev1.PodSpec) string {
	if spec.ServiceAccountName != "" {
		return "serviceaccounts"
	}
	found := ""
	EachSecret(spec, func(string) { found = "secrets" })
	if found == "" {
		EachConfigMap(spec, func(string) { found = "configmaps" })
	}
	if found == "" && len(spec.ResourceClaims) > 0 {
		found = "resourceclaims"
	}
	for i := 0; i < len(spec.Volumes) && found == ""; i++ {
		found = volumeReference(&spec.Volumes[i].VolumeSource)
	}
	return found
}

func volumeReference(v *corev1.VolumeSource) string {
	switch {
	case v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.CephFS != nil, v.Cinder != nil, v.DownwardAPI != nil, v.EmptyDir != nil,
		v.FC != nil, v.FlexVolume != nil, v.Flocker != nil, v.GCEPersistentDisk != nil, v.GitRepo != nil, v.HostPath != nil, v.Image != nil,
		v.ISCSI != nil, v.NFS != nil, v.PhotonPersistentDisk != nil, v.PortworxVolume != nil, v.Quobyte != nil, v.RBD != nil,
		v.ScaleIO != nil, v.StorageOS != nil, v.VsphereVolume != nil:
		return ""
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)"
	case v.Secret != nil:
		return "secrets (via secret volumes)"
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)"
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)"
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims"
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)"
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)"
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if found := projectionReference(&v.Projected.Sources[i]); found != "" {
				return found
			}
		}
		return ""
	}
	return "unknown volumes"
}

func projectionReference(s *corev1.VolumeProjection) string {
	switch {
	case s.ConfigMap != nil:
		return "configmaps (via projected volumes)"
	case s.Secret != nil:
		return "secrets (via projected volumes)"
	case s.ServiceAccountToken != nil:
		return "serviceaccounts (via projected volumes)"
	case s.ClusterTrustBundle != nil:
		return "clustertrustbundles"
	case s.PodCertificate != nil:
		return "podcertificates"
	case s.DownwardAPI != nil:
		return ""
	}
	return "unknown volumes"
}
