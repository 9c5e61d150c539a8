package podsecurity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// restrictedVolumes allows only ephemeral volume types and persistent volume claims.
func restrictedVolumes(pod Pod) Violation {
	var by []string
	var types valueSet
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if name := restrictedVolumeType(&v.VolumeSource); name != "" {
			by = append(by, v.Name)
			types.add(name)
		}
	}
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"restricted volume types", fmt.Sprintf("%s %s %s %s %s", plural("volume", "volumes", len(by)), quoted(by), plural("uses", "use", len(by)),
		plural("restricted volume type", "restricted volume types", len(types)), quoted(types.sorted()))}
}

// restrictedVolumeType returns the name of a volume's type, or "" if the type is allowed. Unknown types are not
// allowed.
func restrictedVolumeType(s *corev1.VolumeSource) string {
	switch {
	case s.ConfigMap != nil, s.CSI != nil, s.DownwardAPI != nil, s.EmptyDir != nil, s.Ephemeral != nil,
		s.Image != nil, s.PersistentVolumeClaim != nil, s.Projected != nil, s.Secret != nil:
		return ""
	}
	for name, is := range map[string]bool{
		"hostPath": s.HostPath != nil, "gcePersistentDisk": s.GCEPersistentDisk != nil, "awsElasticBlockStore": s.AWSElasticBlockStore != nil,
		"gitRepo": s.GitRepo != nil, "nfs": s.NFS != nil, "iscsi": s.ISCSI != nil, "glusterfs": s.Glusterfs != nil, "rbd": s.RBD != nil,
		"flexVolume": s.FlexVolume != nil, "cinder": s.Cinder != nil, "cephfs": s.CephFS != nil, "flocker": s.Flocker != nil, "fc": s.FC != nil,
		"azureFile": s.AzureFile != nil, "vsphereVolume": s.VsphereVolume != nil, "quobyte": s.Quobyte != nil, "azureDisk": s.AzureDisk != nil,
		"photonPersistentDisk": s.PhotonPersistentDisk != nil, "portworxVolume": s.PortworxVolume != nil, "scaleIO": s.ScaleIO != nil, "storageos": s.StorageOS != nil,
	} {
		if is {
			return name
		}
	}
	return "unknown"
}
