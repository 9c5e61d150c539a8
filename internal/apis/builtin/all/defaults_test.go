package all_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
)

// creation is a recorded request whose response was 201. Values that differ between objects are removed, and
// the UID of the object is replaced with "UID".
type creation struct {
	GV, Resource, Scenario, Namespace string
	Request                           json.RawMessage
	Answer                            map[string]any
}

// later contains fields that are set not by defaulting or preparation but later, by allocators, by admission
// or from the clock. It also contains fields that were added or changed after the recording.
var later = map[string][]string{
	"certificatesigningrequests": {"spec.username", "spec.groups", "spec.extra"}, // set from the user
	"csidrivers":                 {"spec.preventPodSchedulingIfMissing"},         // VolumeLimitScaling: since 1.37
	"csinodes":                   {"status"},                                     // since 1.37
	"nodes":                      {"spec.taints"},
	"persistentvolumeclaims":     {"metadata.finalizers"},
	"persistentvolumes":          {"metadata.finalizers", "status.lastPhaseTransitionTime"},
	"pods": {
		"spec.tolerations", "spec.serviceAccount", "spec.serviceAccountName", "spec.priority", "spec.preemptionPolicy",
		"status.conditions.lastTransitionTime",
	},
	"resourceslices": {"spec.devices.taints.timeAdded"},
	"services": {
		"spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy", "spec.ports.nodePort", "spec.healthCheckNodePort",
	},
	"statefulsets":            {"spec.updateStrategy.rollingUpdate.maxUnavailable"}, // MaxUnavailableStatefulSet: since 1.37
	"volumeattributesclasses": {"metadata.finalizers"},
}

// since137 maps creations whose response has changed in 1.37 to the feature gate that caused the change.
var since137 = map[string]string{
	"pods.v1/create-faults 1775": "ClusterTrustBundleProjection",
	"pods.v1/create-faults 1778": "PodCertificateRequest",
	"pods.v1/extra-cases 41":     "ClusterTrustBundleProjection",
	"pods.v1/create-faults 511":  "ContainerStopSignals",
	"pods.v1/extra-cases 63":     "ContainerStopSignals",
}

// TestCreations prepares recorded objects for creation. It compares the results with those of kube-apiserver,
// after a round trip through storage.
func TestCreations(t *testing.T) {
	t.Parallel()
	env := &builtin.Env{Gates: feature.Defaults()}
	resources := map[string]*rest.Resource{}
	built, err := builtin.Build(env, all.Groups())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range built {
		resources[r.GroupVersion.String()+" "+r.FullName()] = r
	}
	for _, c := range recorded[creation](t, "creates.jsonl.gz") {
		r := resources[c.GV+" "+c.Resource]
		if r == nil {
			t.Errorf("no resource %s %s", c.GV, c.Resource)
			continue
		}
		got, err := prepared(t, env, r, &c)
		if err != nil {
			t.Errorf("%s: prepare the object: %v", c.Scenario, err)
			continue
		}
		for _, path := range append(later[c.Resource], "metadata.uid", "metadata.creationTimestamp") {
			remove(got, strings.Split(path, "."))
			remove(c.Answer, strings.Split(path, "."))
		}
		if diff := cmp.Diff(c.Answer, got); (diff != "") != (since137[c.Scenario] != "") {
			t.Errorf("%s (-kube-apiserver +ours):\n%s", c.Scenario, diff)
		}
	}
}

// prepared returns the object that the server creates for a request, before allocation, admission and
// validation.
func prepared(t *testing.T, env *builtin.Env, r *rest.Resource, c *creation) (map[string]any, error) {
	t.Helper()
	obj, err := r.Version.Decode(c.Request, codec.JSON, false)
	if err != nil {
		return nil, err
	}
	hub, err := r.Version.ConvertToHub(obj)
	if err != nil {
		return nil, err
	}
	hub.SetUID("UID")
	if r.Namespaced {
		hub.SetNamespace(c.Namespace)
	}
	name := schema.GroupResource{Group: r.Kind.Hub.GVK.Group, Resource: r.Name}
	env.Store(name).Strategy.PrepareForCreate(t.Context(), hub)
	stored, err := r.Kind.EncodeStored(t.Context(), hub)
	if err != nil {
		return nil, err
	}
	back, err := r.Kind.DecodeStored(stored, 0)
	if err != nil {
		return nil, err
	}
	out, err := r.Version.ConvertFromHub(back)
	if err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(r.Version.GVK)
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	var document map[string]any
	return document, json.Unmarshal(text, &document)
}

// remove removes the field at path. Within lists, it removes the field from all elements.
func remove(value any, path []string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			remove(item, path)
		}
	case map[string]any:
		if len(path) == 1 {
			delete(value, path[0])
			return
		}
		remove(value[path[0]], path[1:])
	}
}

// TestDefaultsOnce sets the defaults of recorded objects twice. The second call must not modify or allocate
// anything, because defaults are set on every read.
func TestDefaultsOnce(t *testing.T) {
	resources := byName(t)
	seen := map[string]int{}
	for _, c := range recorded[creation](t, "creates.jsonl.gz") {
		name := c.GV + " " + c.Resource
		v := resources[name].Version
		if v.Default == nil {
			continue
		}
		obj, err := v.Decode(c.Request, codec.JSON, false)
		if err != nil {
			t.Errorf("%s: decode the request: %v", c.Scenario, err)
			continue
		}
		again := twice(t, c.Scenario, v, obj)
		if seen[name]++; seen[name] > 3 {
			continue
		}
		alloctest.None(t, c.Scenario, func() { v.Default(again) })
	}
}

// twice sets defaults, checks that setting them again changes nothing, and returns the result.
func twice(t *testing.T, name string, v *codec.Version, obj codec.Object) codec.Object {
	t.Helper()
	v.Default(obj)
	again := obj.DeepCopyObject().(codec.Object)
	v.Default(again)
	if !equality.Semantic.DeepEqual(obj, again) {
		t.Errorf("%s: setting the defaults again changed the object (-once +twice):\n%s", name, cmp.Diff(obj, again))
	}
	return again
}

// TestDefaultsOfFixtures is like TestDefaultsOnce, but uses objects in which all fields are set.
func TestDefaultsOfFixtures(t *testing.T) {
	t.Parallel()
	found, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/api/core/v1").Output()
	if err != nil {
		t.Fatalf("find the module k8s.io/api: %v", err)
	}
	types := strings.TrimSpace(string(found))
	checked := 0
	for name, r := range byName(t) {
		v := r.Version
		if r.Subresource != "" || v.Default == nil {
			continue
		}
		group := v.GVK.Group
		if group == "" {
			group = "core"
		}
		body, err := os.ReadFile(filepath.Join(types, "../../testdata/HEAD", group+"."+v.GVK.Version+"."+v.GVK.Kind+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the type is declared in another module
		}
		if err != nil {
			t.Fatal(err)
		}
		obj, err := v.Decode(body, codec.JSON, true)
		if err != nil {
			t.Errorf("decode the fixture %s: %v", name, err)
			continue
		}
		twice(t, name, v, obj)
		checked++
	}
	if checked < 30 {
		t.Errorf("only %d kinds have fixtures", checked)
	}
}
