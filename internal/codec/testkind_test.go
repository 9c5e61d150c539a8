package codec_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
)

// podVersion and podKind describe a typed kind, like the kinds of package builtin. widgetVersion and
// widgetKind describe an untyped kind, like custom resources.
func podVersion() *codec.Version {
	return &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), New: func() codec.Object { return new(corev1.Pod) }}
}

func podKind() *codec.Kind {
	return &codec.Kind{Hub: podVersion(), Fields: func(obj codec.Object) fields.Set {
		return fields.Set{"spec.nodeName": obj.(*corev1.Pod).Spec.NodeName}
	}}
}

func widgetVersion() *codec.Version {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	return &codec.Version{GVK: gvk, Untyped: true, New: func() codec.Object {
		u := new(unstructured.Unstructured)
		u.SetGroupVersionKind(gvk)
		return u
	}}
}

func testPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "a", UID: "u", Labels: map[string]string{"app": "web"},
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i<&>"}}},
	}
}

func storedPod(t testing.TB) *codec.Record {
	t.Helper()
	kind, pod := podKind(), testPod()
	value, err := kind.EncodeStored(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	return codec.RecordOf(kind, pod, value, 7)
}
