package plugin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/codec"
)

func TestStorageObjectInUseProtection(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		group, resource string
		obj             codec.Object
		finalizer       string
	}{
		{"", "persistentvolumes", &corev1.PersistentVolume{}, "kubernetes.io/pv-protection"},
		{"", "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}, "kubernetes.io/pvc-protection"},
		{"storage.k8s.io", "volumeattributesclasses", &storagev1.VolumeAttributesClass{}, "kubernetes.io/vac-protection"},
	} {
		for _, has := range [][]string{nil, {"a/b"}, {test.finalizer}} {
			want := append([]string{}, has...)
			if len(has) == 0 || has[0] != test.finalizer {
				want = append(want, test.finalizer)
			}
			test.obj.SetFinalizers(has)
			mutated(t, plugin.StorageObjectInUseProtection{}, creating(resource(test.group, test.resource, ""), test.obj), "")
			if diff := cmp.Diff(want, test.obj.GetFinalizers()); diff != "" {
				t.Errorf("%s with %s (-want +got):\n%s", test.resource, has, diff)
			}
		}
	}
	pod := podNamed("x")
	mutated(t, plugin.StorageObjectInUseProtection{}, creating(pods(), pod), "")
	if len(pod.Finalizers) > 0 {
		t.Errorf("finalizers %s were added to a pod", pod.Finalizers)
	}
}
