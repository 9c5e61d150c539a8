package host

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// kubeTypes returns a scheme with the types of client-go and APIService.
func kubeTypes(t *testing.T) *runtime.Scheme {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	return types
}

// kubeEncode encodes an object as kube-apiserver does before it stores the object, with a codec of the storage
// version and the protobuf serializer.
func kubeEncode(t *testing.T, gv schema.GroupVersion, obj runtime.Object) []byte {
	t.Helper()
	types := kubeTypes(t)
	s := protobuf.NewSerializer(types, types)
	codec := versioning.NewDefaultingCodecForScheme(types, s, s, gv, runtime.InternalGroupVersioner)
	var out bytes.Buffer
	if err := codec.Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// kubeDecode decodes stored bytes like kube-apiserver.
func kubeDecode(t *testing.T, raw []byte) (runtime.Object, schema.GroupVersion) {
	t.Helper()
	types := kubeTypes(t)
	obj, gvk, err := protobuf.NewSerializer(types, types).Decode(raw, nil, nil)
	if err != nil {
		t.Fatalf("kube-apiserver cannot decode the value: %v", err)
	}
	return obj, gvk.GroupVersion()
}

// kept returns objects with their storage keys in kube-apiserver and their API paths. Some keys differ from the
// resource name.
func kept() []struct {
	key, path string
	gv        schema.GroupVersion
	obj       metav1.Object
} {
	one := int32(1)
	in := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: "fixture", Namespace: namespace, UID: types.UID("6f6e1a2c-0000-4000-8000-000000000001"),
			CreationTimestamp: metav1.Unix(1700000000, 0), Labels: map[string]string{"a": "1", "b": "2"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{".":{},"f:k":{}}}`)}}},
		}
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "image:1", TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File", ImagePullPolicy: "IfNotPresent"}},
	}}
	return []struct {
		key, path string
		gv        schema.GroupVersion
		obj       metav1.Object
	}{
		{"/registry/configmaps/default/fixture", "/api/v1/namespaces/default/configmaps/fixture", corev1.SchemeGroupVersion,
			&corev1.ConfigMap{ObjectMeta: in("default"), Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 1, 255}}}},
		{"/registry/secrets/default/fixture", "/api/v1/namespaces/default/secrets/fixture", corev1.SchemeGroupVersion,
			&corev1.Secret{ObjectMeta: in("default"), Type: "Opaque", Data: map[string][]byte{"k": []byte("v")}}},
		{"/registry/minions/fixture", "/api/v1/nodes/fixture", corev1.SchemeGroupVersion,
			&corev1.Node{ObjectMeta: in(""), Spec: corev1.NodeSpec{PodCIDR: "10.1.0.0/24", PodCIDRs: []string{"10.1.0.0/24"}}}},
		{"/registry/services/specs/default/fixture", "/api/v1/namespaces/default/services/fixture", corev1.SchemeGroupVersion,
			&corev1.Service{ObjectMeta: in("default"), Spec: corev1.ServiceSpec{Type: "ExternalName", ExternalName: "example.com", SessionAffinity: "None"}}},
		{"/registry/services/endpoints/default/fixture", "/api/v1/namespaces/default/endpoints/fixture", corev1.SchemeGroupVersion,
			&corev1.Endpoints{ObjectMeta: in("default")}},
		{"/registry/deployments/default/fixture", "/apis/apps/v1/namespaces/default/deployments/fixture", appsv1.SchemeGroupVersion,
			&appsv1.Deployment{ObjectMeta: in("default"), Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}, Template: template}}},
		{"/registry/leases/default/fixture", "/apis/coordination.k8s.io/v1/namespaces/default/leases/fixture", coordinationv1.SchemeGroupVersion,
			&coordinationv1.Lease{ObjectMeta: in("default"), Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &one}}},
		{"/registry/clusterroles/fixture", "/apis/rbac.authorization.k8s.io/v1/clusterroles/fixture", rbacv1.SchemeGroupVersion,
			&rbacv1.ClusterRole{ObjectMeta: in(""), Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}},
		{"/registry/events/default/fixture", "/apis/events.k8s.io/v1/namespaces/default/events/fixture", corev1.SchemeGroupVersion,
			&corev1.Event{ObjectMeta: in("default"), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"}, Reason: "Started", Type: "Normal", Count: 1}},
	}
}

// TestBytesOfKubernetes checks that the server serves values that kube-apiserver wrote, and that it writes the
// same values to the same keys.
func TestBytesOfKubernetes(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	raw, err := etcd.Open(etcd.Config{Endpoints: cluster.URLs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	for _, o := range kept() {
		value := kubeEncode(t, o.gv, o.obj.(runtime.Object))
		if _, err := raw.Commit(t.Context(), kv.Op{Key: o.key, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, etcdConfig(cluster))
	for _, o := range kept() {
		code, body := s.do(t, "GET", o.path, "")
		if code != 200 {
			t.Errorf("GET %s: %d %s", o.path, code, body)
			continue
		}
		got, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		accessor, err := meta.Accessor(got)
		if err != nil {
			t.Fatal(err)
		}
		if accessor.GetUID() != o.obj.GetUID() || !accessor.GetCreationTimestamp().Time.Equal(o.obj.GetCreationTimestamp().Time) {
			t.Errorf("%s: served as %s", o.path, body)
		}
		var sent map[string]any
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatal(err)
		}
		sent["metadata"].(map[string]any)["annotations"] = map[string]any{"changed": "yes"}
		changed, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		if code, body := s.do(t, "PUT", o.path, string(changed)); code != 200 {
			t.Errorf("PUT %s: %d %s", o.path, code, body)
		}
	}
	checkBytes(t, raw)
}

// checkBytes compares all values in etcd with kube-apiserver's encoding.
func checkBytes(t *testing.T, raw *etcd.Store) {
	t.Helper()
	all, err := raw.Range(t.Context(), kv.RangeRequest{Start: "/registry/", End: "/registry0"})
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, e := range all.Entries {
		obj, gv := kubeDecode(t, e.Value)
		accessor, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		if accessor.GetResourceVersion() != "" {
			t.Errorf("%s is stored with resourceVersion %s", e.Key, accessor.GetResourceVersion())
		}
		if accessor.GetAnnotations()["changed"] != "" {
			changed++
		}
		if !strings.HasSuffix(e.Key, "/"+accessor.GetName()) && !strings.HasPrefix(e.Key, "/registry/masterleases/") && !strings.HasPrefix(e.Key, "/registry/peerserverleases/") { // the objects of these leases have no names
			t.Errorf("%s contains %s", e.Key, accessor.GetName())
		}
		if want := kubeEncode(t, gv, obj); !bytes.Equal(e.Value, want) {
			t.Errorf("%s is stored as\n%q\nwant\n%q", e.Key, e.Value, want)
		}
	}
	if changed != len(kept()) {
		t.Errorf("%d objects were written to the keys of kube-apiserver, want %d", changed, len(kept()))
	}
}
