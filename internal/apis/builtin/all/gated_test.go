package all_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// gatedFields contains objects that use a feature gate, and the name of a field that belongs to the feature.
// The field is preserved while the gate is enabled. After the gate is disabled, it is preserved as long as the
// stored object has it.
var gatedFields = [...]struct{ gate, resource, object, field string }{
	{"CoordinatedLeaderElection", "coordination.k8s.io/v1 leases", `{"spec":{"strategy":"OldestEmulationVersion"}}`, "spec.strategy"},
	{
		"CrossNamespaceVolumeDataSource", "v1 persistentvolumeclaims",
		`{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"x","namespace":"other"}}}`,
		"spec.dataSourceRef",
	},
	{"InPlacePodVerticalScalingSchedulerPreemption", "v1 nodes", `{"spec":{"podPreemptionPolicy":{}}}`, "spec.podPreemptionPolicy"},
	{"KubeletInUserNamespace", "v1 nodes", `{"status":{"nodeInfo":{"runningInUserNamespace":true}}}`, "status.nodeInfo.runningInUserNamespace"},
	{
		"MaxUnavailableStatefulSet", "apps/v1 statefulsets",
		`{"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
		"spec.updateStrategy.rollingUpdate.maxUnavailable",
	},
	{"VolumeLimitScaling", "storage.k8s.io/v1 csidrivers", `{"spec":{"preventPodSchedulingIfMissing":true}}`, "spec.preventPodSchedulingIfMissing"},
	{
		"HPAGeneration", "autoscaling/v2 horizontalpodautoscalers",
		`{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":2}}`, "metadata.generation",
	},
	{
		"DRAPartitionableDevices", "resource.k8s.io/v1 resourceslices",
		`{"spec":{"driver":"gpu.example.com","allNodes":true,"pool":{"name":"p","generation":1,"resourceSliceCount":1},"sharedCounters":[{"name":"c","counters":{"m":{"value":"1"}}}]}}`,
		"spec.sharedCounters",
	},
	{
		"DRAConsumableCapacity", "resource.k8s.io/v1 resourceclaims",
		`{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu","capacity":{"requests":{"m":"1Gi"}}}}]}}}`, "capacity",
	},
}

// TestGated checks writes of each object with the gate enabled, disabled and disabled again.
func TestGated(t *testing.T) {
	t.Parallel()
	for _, tt := range gatedFields {
		t.Run(tt.gate, func(t *testing.T) {
			t.Parallel()
			backend := storagetest.InMemory(t)
			on, off := gatedResource(t, backend, tt.gate, true, tt.resource), gatedResource(t, backend, tt.gate, false, tt.resource)
			if obj := writeNew(t, off, "off.example.com", tt.object); has(t, obj, tt.field) {
				t.Errorf("off: %s is kept", tt.field)
			}
			obj := writeNew(t, on, "on.example.com", tt.object)
			if !has(t, obj, tt.field) {
				t.Fatalf("on: %s is dropped", tt.field)
			}
			obj.SetLabels(map[string]string{"a": "b"})
			if obj = rewrite(t, off, obj); !has(t, obj, tt.field) {
				t.Errorf("off again: %s is dropped from an object that had it", tt.field)
			}
		})
	}
}

// gatedResource returns a resource that is stored in backend and built with one gate enabled or disabled.
func gatedResource(t *testing.T, backend kv.Backend, gate string, on bool, name string) *rest.Resource {
	t.Helper()
	gates, err := feature.Defaults().With(feature.Set{feature.Gate(gate): on})
	if err != nil {
		t.Fatal(err)
	}
	env := &builtin.Env{Gates: gates, Storage: builtin.StorageEnv{Open: storagetest.Opener(backend)}}
	resources, err := builtin.Build(env, all.Groups())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.GroupVersion.String()+" "+r.FullName() == name {
			return r
		}
	}
	t.Fatalf("resource %s does not exist", name)
	return nil
}

func writeNew(t *testing.T, r *rest.Resource, name, content string) codec.Object {
	t.Helper()
	obj := r.Version.New()
	if err := json.Unmarshal([]byte(content), obj); err != nil {
		t.Fatal(err)
	}
	obj.SetName(name)
	if strings.HasPrefix(r.Name, "statefulsets") {
		obj.SetName(strings.ReplaceAll(name, ".", "-"))
	}
	if r.Namespaced {
		obj.SetNamespace("default")
	}
	hub, err := r.Version.ConvertToHub(obj)
	if err != nil {
		t.Fatal(err)
	}
	record, err := r.Storage.(rest.Creater).Create(t.Context(), hub, nil, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object(t, record)
}

func rewrite(t *testing.T, r *rest.Resource, obj codec.Object) codec.Object {
	t.Helper()
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	record, _, err := r.Storage.(rest.Updater).Update(t.Context(), key, func(context.Context, codec.Object) (codec.Object, error) {
		return obj.DeepCopyObject().(codec.Object), nil
	}, rest.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object(t, record)
}

// has reports whether an object has a field. The field is either a dotted path, or a name that may occur
// anywhere in the object.
func has(t *testing.T, obj codec.Object, field string) bool {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(field, ".") {
		return strings.Contains(string(text), `"`+field+`":`)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(field, ".") {
		content, _ := value.(map[string]any)
		if value = content[name]; value == nil {
			return false
		}
	}
	return true
}
