package changes_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

// rich returns an object with all the metadata in Meta, and with the names of these fields in other places.
func rich() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", Namespace: "a", UID: "u-1", Labels: map[string]string{"uid": "x", "finalizers": "y"},
			DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"a/b", "orphan"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u-2"},
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "u-3", Controller: new(true), BlockOwnerDeletion: new(true)},
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:uid":{}}`)}}},
		},
		Data: map[string]string{"metadata": `{"uid":"z"}`},
	}
}

// stored returns an object as it is stored, in JSON or protobuf encoding.
func stored(t testing.TB, obj *corev1.ConfigMap, protobuf bool) []byte {
	t.Helper()
	if !protobuf {
		obj.APIVersion, obj.Kind = "v1", "ConfigMap"
		data, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	raw, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}
	envelope, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), envelope...)
}

func TestMeta(t *testing.T) {
	t.Parallel()
	want := changes.Meta{
		UID: "u-1", Deleting: true, Finalizers: []string{"a/b", "orphan"},
		Owners: []changes.Owner{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u-2"}, {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "u-3", BlockOwnerDeletion: true}},
	}
	plain := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	for _, protobuf := range []bool{false, true} {
		for _, tt := range []struct {
			obj  *corev1.ConfigMap
			want changes.Meta
		}{{rich(), want}, {plain, changes.Meta{UID: "u"}}} {
			got, err := changes.ParseMeta(stored(t, tt.obj, protobuf))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("protobuf %t (-want +got):\n%s", protobuf, diff)
			}
		}
	}
	if got, err := changes.ParseMeta(nil); err != nil || !cmp.Equal(got, changes.Meta{}) {
		t.Errorf("metadata of nil: %v, %v", got, err)
	}
}

// FuzzMeta checks that ParseMeta does not panic on any stored value.
func FuzzMeta(f *testing.F) {
	f.Add(stored(f, rich(), true))
	f.Add(stored(f, rich(), false))
	f.Add([]byte(`{"metadata":{"ownerReferences":[{"uid":1}],"finalizers":null}}`))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = changes.ParseMeta(data) })
}

func BenchmarkMeta(b *testing.B) {
	for name, protobuf := range map[string]bool{"json": false, "protobuf": true} {
		data := stored(b, rich(), protobuf)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := changes.ParseMeta(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
