package plugin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

// classMeta returns the metadata of a class with the given age, in seconds, and one annotation.
func classMeta(name string, age int, annotation, value string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000000-int64(age), 0)),
		Annotations: map[string]string{annotation: value},
	}
}

func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	class := func(name string, age int, annotation, value string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: classMeta(name, age, annotation, value)}
	}
	const ga, beta = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	other := class("other", 0, ga, "false")
	for name, test := range map[string]struct {
		classes stored[*storagev1.StorageClass]
		claim   corev1.PersistentVolumeClaim
		want    string
	}{
		"no class":        {nil, corev1.PersistentVolumeClaim{}, "-"},
		"none is default": {stored[*storagev1.StorageClass]{other}, corev1.PersistentVolumeClaim{}, "-"},
		"the default":     {stored[*storagev1.StorageClass]{other, class("b", 5, ga, "true")}, corev1.PersistentVolumeClaim{}, "b"},
		"by the beta":     {stored[*storagev1.StorageClass]{other, class("b", 5, beta, "true")}, corev1.PersistentVolumeClaim{}, "b"},
		"the newest":      {stored[*storagev1.StorageClass]{class("a", 5, ga, "true"), class("b", 3, ga, "true"), class("c", 4, ga, "true")}, corev1.PersistentVolumeClaim{}, "b"},
		"of one second":   {stored[*storagev1.StorageClass]{class("c", 5, ga, "true"), class("b", 5, ga, "true"), class("d", 5, ga, "true")}, corev1.PersistentVolumeClaim{}, "b"},
		"empty":           {stored[*storagev1.StorageClass]{class("b", 5, ga, "true")}, corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr("")}}, ""},
		"annotated": {stored[*storagev1.StorageClass]{class("b", 5, ga, "true")},
			corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"volume.beta.kubernetes.io/storage-class": "x"}}}, "-"},
	} {
		mutated(t, plugin.DefaultStorageClass{Classes: test.classes}, creating(resource("", "persistentvolumeclaims", ""), &test.claim), "")
		got := "-"
		if named := test.claim.Spec.StorageClassName; named != nil {
			got = *named
		}
		if got != test.want {
			t.Errorf("%s: class %q, want %q", name, got, test.want)
		}
	}
}

func TestDefaultStorageClassRejects(t *testing.T) {
	t.Parallel()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
	mutated(t, plugin.DefaultStorageClass{Classes: broken[*storagev1.StorageClass]{}}, creating(resource("", "persistentvolumeclaims", ""), claim),
		`persistentvolumeclaims "x-" is forbidden: disk trouble`)
	mutated(t, plugin.DefaultStorageClass{Classes: broken[*storagev1.StorageClass]{}}, creating(pods(), podNamed("x")), "")
}
