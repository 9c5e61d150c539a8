package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func (w *warner) volumes() {
	for i := range w.spec.Volumes {
		w.source(fmt.Sprintf("%s.volumes[%d]", w.path, i), &w.spec.Volumes[i])
	}
	for i := range w.spec.Volumes {
		w.files(&w.spec.Volumes[i])
	}
}

// source adds warnings for volume types that kubelets no longer support.
func (w *warner) source(path string, volume *corev1.Volume) {
	for _, old := range [...]struct {
		name, text string
		set        bool
	}{
		{"photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+", volume.PhotonPersistentDisk != nil},
		{"gitRepo", "deprecated in v1.11, and disabled by default in v1.33+", volume.GitRepo != nil},
		{"scaleIO", "deprecated in v1.16, non-functional in v1.22+", volume.ScaleIO != nil},
		{"flocker", "deprecated in v1.22, non-functional in v1.25+", volume.Flocker != nil},
		{"storageOS", "deprecated in v1.22, non-functional in v1.25+", volume.StorageOS != nil},
		{"quobyte", "deprecated in v1.22, non-functional in v1.25+", volume.Quobyte != nil},
		{"glusterfs", "deprecated in v1.25, non-functional in v1.26+", volume.Glusterfs != nil},
		{"cephfs", "deprecated in v1.28, non-functional in v1.31+", volume.CephFS != nil},
		{"rbd", "deprecated in v1.28, non-functional in v1.31+", volume.RBD != nil},
	} {
		if old.set {
			w.addf("%s.%s: %s", path, old.name, old.text)
		}
	}
	if s := volume.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		w.add(ClaimWarnings(path+".ephemeral.volumeClaimTemplate.spec", &s.VolumeClaimTemplate.Spec))
	}
}

// ClaimWarnings returns warnings for storage quantities in a claim that are not whole bytes.
func ClaimWarnings(path string, spec *corev1.PersistentVolumeClaimSpec) []string {
	var warnings []string
	for _, list := range [...]struct {
		name      string
		resources corev1.ResourceList
	}{{"requests", spec.Resources.Requests}, {"limits", spec.Resources.Limits}} {
		if quantity := list.resources[corev1.ResourceStorage]; quantity.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s.resources.%s[storage]: fractional byte value %q is invalid, must be an integer", path, list.name, quantity.String()))
		}
	}
	return warnings
}

// files adds warnings for files of a volume that conflict, because they have the same path or because one file
// is below the path of another file.
func (w *warner) files(volume *corev1.Volume) {
	if s := volume.ConfigMap; s != nil {
		o := overlaps{warner: w, volume: fmt.Sprintf("%q (ConfigMap %q)", volume.Name, s.Name)}
		o.addKeys(s.Items, "")
	}
	if s := volume.Secret; s != nil {
		o := overlaps{warner: w, volume: fmt.Sprintf("%q (Secret %q)", volume.Name, s.SecretName)}
		o.addKeys(s.Items, "")
	}
	if s := volume.DownwardAPI; s != nil {
		o := overlaps{warner: w, volume: fmt.Sprintf("%q (DownwardAPI)", volume.Name)}
		o.addFiles(s.Items, "")
	}
	if s := volume.Projected; s != nil {
		o := overlaps{warner: w, volume: fmt.Sprintf("%q (Projected)", volume.Name)}
		for i := range s.Sources {
			o.addSource(&s.Sources[i], volume.Name)
		}
	}
}

// overlaps finds overlapping file paths within a volume. The search takes linear time.
type overlaps struct {
	*warner
	volume string
	files  []projectedFile
	nodes  []pathNode // the tree of paths; node 0 is the root
	found  map[pathElement]int
}

// pathNode is a file or directory.
type pathNode struct {
	at    []int // indexes of the files that have this path
	below []int // indexes of all files below this path
}

// pathElement is the key of a node in overlaps.found. It consists of the parent directory's node and one path
// element. Keys are short, because a path can have a million elements.
type pathElement struct {
	parent int
	name   string
}

// projectedFile contains the path and the source of a file. source is "" if the path alone identifies the file
// in messages.
type projectedFile struct{ path, source string }

func (p projectedFile) String() string {
	if p.source == "" {
		return fmt.Sprintf("%q", p.path)
	}
	return fmt.Sprintf("%q (%s)", p.path, p.source)
}

func (o *overlaps) addSource(s *corev1.VolumeProjection, volume string) {
	switch {
	case *s == (corev1.VolumeProjection{}):
		o.addf("volume %q (Projected) has no sources provided", volume)
	case s.ConfigMap != nil && s.ConfigMap.Items != nil:
		o.addKeys(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))
	case s.Secret != nil && s.Secret.Items != nil:
		o.addKeys(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))
	case s.DownwardAPI != nil && s.DownwardAPI.Items != nil:
		o.addFiles(s.DownwardAPI.Items, "DownwardAPI")
	case s.ServiceAccountToken != nil:
		o.add(s.ServiceAccountToken.Path, "ServiceAccountToken")
	case s.ClusterTrustBundle != nil:
		name := s.ClusterTrustBundle.Name
		if name == nil {
			name = s.ClusterTrustBundle.SignerName
		}
		if name != nil {
			o.add(s.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name))
		}
	case s.PodCertificate != nil:
		o.add(s.PodCertificate.CertificateChainPath, "PodCertificate chain")
		o.add(s.PodCertificate.KeyPath, "PodCertificate key")
		o.add(s.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle")
	}
}

func (o *overlaps) addKeys(items []corev1.KeyToPath, source string) {
	for i := range items {
		o.add(items[i].Path, source)
	}
}

func (o *overlaps) addFiles(items []corev1.DownwardAPIVolumeFile, source string) {
	for i := range items {
		o.add(items[i].Path, source)
	}
}

func (o *overlaps) add(path, source string) {
	path = strings.TrimRight(path, "/")
	if path == "" || len(o.warnings) >= maxWarnings {
		return
	}
	if o.nodes == nil {
		o.nodes, o.found = make([]pathNode, 1), map[pathElement]int{}
	}
	file := projectedFile{path, source}
	var others []int
	at := 0
	for name := range strings.SplitSeq(path, "/") {
		if dir := &o.nodes[at]; at != 0 {
			others = append(others, dir.at...)
			dir.below = append(dir.below, len(o.files))
		}
		at = o.node(at, name)
	}
	node := &o.nodes[at]
	others = append(append(others, node.at...), node.below...)
	slices.Sort(others)
	for _, i := range others {
		o.addf("volume %s: overlapping paths: %s with %s", o.volume, file, o.files[i])
	}
	node.at = append(node.at, len(o.files))
	o.files = append(o.files, file)
}

// node returns the node of a path element, and creates it if necessary.
func (o *overlaps) node(parent int, name string) int {
	element := pathElement{parent, name}
	node, ok := o.found[element]
	if !ok {
		node = len(o.nodes)
		o.nodes, o.found[element] = append(o.nodes, pathNode{}), node
	}
	return node
}
