package plugin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

func TestPersistentVolumeClaimResize(t *testing.T) {
	t.Parallel()
	classes := stored[*storagev1.StorageClass]{
		{ObjectMeta: metav1.ObjectMeta{Name: "grows"}, AllowVolumeExpansion: ptr(true)},
		{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, AllowVolumeExpansion: ptr(false)},
		{ObjectMeta: metav1.ObjectMeta{Name: "silent"}},
	}
	const (
		refused = `persistentvolumeclaims "x" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`
		unbound = `persistentvolumeclaims "x" is forbidden: Only bound persistent volume claims can be expanded`
	)
	claim := func(size, class string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse(size)}
		if class != "" {
			c.Spec.StorageClassName = &class
		}
		return c
	}
	annotated := func(c *corev1.PersistentVolumeClaim, class string) *corev1.PersistentVolumeClaim {
		c.Annotations = map[string]string{"volume.beta.kubernetes.io/storage-class": class}
		return c
	}
	for name, test := range map[string]struct {
		claim, old *corev1.PersistentVolumeClaim
		refusal    string
	}{
		"the same size":    {claim("1Gi", "fixed", "Bound"), claim("1024Mi", "fixed", "Bound"), ""},
		"less":             {claim("1Gi", "fixed", "Pending"), claim("2Gi", "fixed", "Pending"), ""},
		"more":             {claim("2Gi", "grows", "Bound"), claim("1Gi", "grows", "Bound"), ""},
		"not bound":        {claim("2Gi", "grows", "Bound"), claim("1Gi", "grows", "Pending"), unbound},
		"not allowed":      {claim("2Gi", "fixed", "Bound"), claim("1Gi", "fixed", "Bound"), refused},
		"nothing said":     {claim("2Gi", "silent", "Bound"), claim("1Gi", "silent", "Bound"), refused},
		"a missing class":  {claim("2Gi", "none", "Bound"), claim("1Gi", "none", "Bound"), refused},
		"no class":         {claim("2Gi", "", "Bound"), claim("1Gi", "", "Bound"), refused},
		"another class":    {claim("2Gi", "grows", "Bound"), claim("1Gi", "fixed", "Bound"), refused},
		"by an annotation": {annotated(claim("2Gi", "fixed", "Bound"), "grows"), annotated(claim("1Gi", "fixed", "Bound"), "grows"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plugin.PersistentVolumeClaimResize{Classes: classes}
			validated(t, p, updating(resource("", "persistentvolumeclaims", ""), test.claim, test.old), test.refusal)
			validated(t, p, updating(resource("", "persistentvolumeclaims", "status"), test.claim, test.old), "")
		})
	}
}
