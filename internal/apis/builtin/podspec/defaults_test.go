package podspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestServiceAccountHasTwoNames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ name, old, want string }{
		"neither": {"", "", ""},
		"new":     {"a", "", "a"},
		"old":     {"", "a", "a"},
		"both":    {"a", "b", "a"},
	}
	for name, test := range tests {
		spec := corev1.PodSpec{ServiceAccountName: test.name, DeprecatedServiceAccount: test.old}
		Default(&spec)
		if spec.ServiceAccountName != test.want || spec.DeprecatedServiceAccount != test.want {
			t.Errorf("%s: %q and %q, want %q", name, spec.ServiceAccountName, spec.DeprecatedServiceAccount, test.want)
		}
	}
}

// TestVolumes checks the defaults of volume types that do not occur in the recorded requests.
func TestVolumes(t *testing.T) {
	t.Parallel()
	mode := int32(0o644)
	tests := map[string]struct{ volume, want corev1.VolumeSource }{
		"none":       {want: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		"image":      {corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "a"}}, corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "a", PullPolicy: corev1.PullAlways}}},
		"secret":     {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: &mode}}},
		"config map": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultMode: &mode}}},
		"scale io": {
			corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}},
			corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{StorageMode: "ThinProvisioned", FSType: "xfs"}},
		},
		"rbd": {
			corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RadosUser: "u"}},
			corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RadosUser: "u", RBDPool: "rbd", Keyring: "/etc/ceph/keyring"}},
		},
		"host path": {
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}},
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Type: new(corev1.HostPathUnset)}},
		},
		"azure disk": {
			corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}},
			corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
				CachingMode: new(corev1.AzureDataDiskCachingReadWrite), FSType: new("ext4"), ReadOnly: new(false), Kind: new(corev1.AzureSharedBlobDisk),
			}},
		},
	}
	for name, test := range tests {
		spec := corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: test.volume}}}
		Default(&spec)
		if diff := cmp.Diff(test.want, spec.Volumes[0].VolumeSource); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRoundUp(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1":                       "1",
		"100m":                    "100m",
		"1u":                      "1m",
		"1000001n":                "2m",
		"1000000n":                "1m",
		"-1u":                     "-1m",
		"1Ei":                     "1Ei",
		"12345678901234567890.5u": "12345678901234568m",
	} {
		list := corev1.ResourceList{"x": resource.MustParse(text)}
		RoundUpQuantities(list)
		if got := list["x"]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s is rounded up to %s, want %s", text, got.String(), want)
		}
	}
}
