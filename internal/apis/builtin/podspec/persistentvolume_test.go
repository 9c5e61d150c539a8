package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/feature"
)

func TestInlineVolumes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*corev1.PersistentVolumeSpec)
		want   []string
	}{
		{"valid", func(*corev1.PersistentVolumeSpec) {}, nil},
		{"what is of claims", func(s *corev1.PersistentVolumeSpec) {
			s.ClaimRef, s.Capacity, s.StorageClassName = &corev1.ObjectReference{}, corev1.ResourceList{"storage": resource.MustParse("1")}, "c"
			s.NodeAffinity, s.PersistentVolumeReclaimPolicy = &corev1.VolumeNodeAffinity{}, corev1.PersistentVolumeReclaimDelete
			s.VolumeMode = new(corev1.PersistentVolumeBlock)
		}, []string{
			"spec.claimRef: Forbidden: may not be specified in the context of inline volumes", "spec.capacity: Forbidden", "spec.nodeAffinity: Forbidden",
			"spec.storageClassName: Forbidden", "spec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain", "spec.volumeMode: Forbidden",
		}},
		{"a disk of no driver", func(s *corev1.PersistentVolumeSpec) {
			s.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}
		}, []string{"spec.csi: Required value: has to be specified in the context of inline volumes"}},
		{"a disk of a node, which would need what may not be specified", func(s *corev1.PersistentVolumeSpec) {
			s.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/a"}}
		}, []string{"spec.nodeAffinity: Required value: Local volume requires node affinity", "spec.csi: Required value"}},
	} {
		spec := &corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		}
		tt.change(spec)
		faults := validationtest.Errors(t, feature.Defaults(), func(f validation.Field) { ValidateInlineVolumeSpec(f.Child("spec"), spec) })
		if !slices.EqualFunc(faults, tt.want, strings.Contains) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, faults, tt.want)
		}
	}
}

func TestDeprecatedNodeLabels(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
		"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		"app.kubernetes.io/created-by":                  "deprecated since v1.9",
		"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
		"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
		"kubernetes.io/arch":                            "",
	} {
		if got := DeprecatedNodeLabel(key); got != want {
			t.Errorf("DeprecatedNodeLabel(%q) = %q, want %q", key, got, want)
		}
	}
}
