package controlplane

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// seedPaths returns the paths of the collections that contain the objects of Seed.
func seedPaths() []string {
	return []string{
		"namespaces/", "clusterroles/", "clusterrolebindings/", "roles/", "rolebindings/", "priorityclasses/", "flowschemas/", "prioritylevelconfigurations/",
	}
}

var updateSeed = flag.Bool("update", false, "record the default objects of a cluster again")

const seedPrefix = "/registry/"

// TestSeed checks that Seed returns the same objects as creating them one by one. -update records
// them again:
//
// go test ./internal/controlplane -run TestSeed -args -update
func TestSeed(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Storage.Shared = true // disables Seed
	plane := newPlane(t, env, seedPrefix)
	if err := plane.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored := recordSeed(t, plane)
	if *updateSeed {
		file, err := bootstrap.EncodeSeed(stored)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../apis/bootstrap/data/seed.bin", file, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	seed, err := bootstrap.Seed(bootstrap.SeedTime(), func(string) types.UID { return bootstrap.SeedUID })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decodeSeed(t, plane, stored), decodeSeed(t, plane, seed)); diff != "" {
		t.Errorf("Seed differs from the objects that a first start stores; if this is intended, run the test with -update (-start +seed):\n%s", diff)
	}
}

// TestDefaultObjects checks that the default objects of a control plane are equal in all recordings, and that
// they contain neither a real time nor a real UID.
func TestDefaultObjects(t *testing.T) {
	t.Parallel()
	record := func() []bootstrap.Stored {
		t.Helper()
		env := newEnv(t)
		env.Storage.Feed = nil
		var options Options
		options.Features.Gates = feature.Set{feature.StorageVersionAPI: true} // its objects differ between recordings
		options.Features.RuntimeConfig = map[string]string{"internal.apiserver.k8s.io/v1alpha1": "true"}
		objects, err := DefaultObjects(t.Context(), env, options)
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	began := time.Now().Unix()
	objects := record()
	if diff := cmp.Diff(objects, record()); diff != "" {
		t.Errorf("a second recording differs:\n%s", diff)
	}
	if len(objects) < 150 {
		t.Errorf("%d objects", len(objects))
	}
	now := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, o := range objects {
		if !bytes.Contains(o.Value, []byte(bootstrap.SeedUID)) {
			t.Errorf("%s has another UID", o.Key)
		}
		for second := began; second <= time.Now().Unix(); second++ {
			if bytes.Contains(o.Value, binary.AppendUvarint([]byte{1 << 3}, uint64(second))) {
				t.Errorf("%s contains the current time", o.Key)
			}
		}
		if strings.Contains(o.Key, "storageversion") && !strings.Contains(o.Key, "role") {
			t.Errorf("%s depends on the server", o.Key)
		}
		if bootstrap.SetIdentity(o.Value, now, "00000000-0000-4000-8000-000000000000"); bytes.Contains(o.Value, []byte(bootstrap.SeedUID)) {
			t.Errorf("%s contains the UID of the recording", o.Key)
		}
	}
}

// recordSeed returns the stored objects that Seed should contain. Their UIDs and times are replaced with
// SeedUID and SeedTime.
func recordSeed(t *testing.T, plane *ControlPlane) []bootstrap.Stored {
	t.Helper()
	all := storedSeed(t, plane)
	for n := range all {
		kind := kindAt(t, plane, all[n].Key)
		obj, err := kind.DecodeStored(all[n].Value, 0)
		if err != nil {
			t.Fatal(err)
		}
		anonymize(obj)
		if all[n].Value, err = kind.EncodeStored(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// storedSeed returns the stored objects in the collections of seedPaths.
func storedSeed(t *testing.T, plane *ControlPlane) []bootstrap.Stored {
	t.Helper()
	var all []bootstrap.Stored
	for _, path := range seedPaths() {
		found, err := plane.env.Storage.Backend.Range(t.Context(), kv.RangeRequest{Start: seedPrefix + path, End: kv.PrefixEnd(seedPrefix + path)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found.Entries {
			all = append(all, bootstrap.Stored{Key: strings.TrimPrefix(e.Key, seedPrefix), Value: e.Value})
		}
	}
	return all
}

// anonymize replaces the values that differ between starts.
func anonymize(obj codec.Object) {
	at := metav1.NewTime(bootstrap.SeedTime())
	obj.SetUID(bootstrap.SeedUID)
	obj.SetCreationTimestamp(at)
	managed := obj.GetManagedFields()
	for n := range managed {
		managed[n].Time = &at
	}
	obj.SetManagedFields(managed)
	if schema, ok := obj.(*flowcontrolv1.FlowSchema); ok {
		for n := range schema.Status.Conditions {
			schema.Status.Conditions[n].LastTransitionTime = at
		}
	}
}

func kindAt(t *testing.T, plane *ControlPlane, key string) *codec.Kind {
	t.Helper()
	for _, spec := range plane.opened.Load().resources.builtin.rows.Specs() {
		if strings.HasPrefix(key, spec.Path+"/") {
			return spec.Kind
		}
	}
	t.Fatalf("no kind is stored at %s", key)
	return nil
}

func decodeSeed(t *testing.T, plane *ControlPlane, stored []bootstrap.Stored) map[string]codec.Object {
	t.Helper()
	decoded := make(map[string]codec.Object, len(stored))
	for _, s := range stored {
		obj, err := kindAt(t, plane, s.Key).DecodeStored(s.Value, 0)
		if err != nil {
			t.Fatal(err)
		}
		managed := obj.GetManagedFields()
		slices.SortFunc(managed, func(a, b metav1.ManagedFieldsEntry) int { return strings.Compare(a.Manager, b.Manager) })
		obj.SetManagedFields(managed)
		decoded[s.Key] = obj
	}
	return decoded
}

// TestSeeded checks that a first start stores the recorded objects with new UIDs and times, and
// that a second start does not change them.
func TestSeeded(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	start := func() map[string]codec.Object {
		plane, err := New(env, seedPrefix, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Close()
		if err := plane.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		return decodeSeed(t, plane, storedSeed(t, plane))
	}
	began := time.Now().Truncate(time.Second)
	first := start()
	uids := map[types.UID]bool{bootstrap.SeedUID: true}
	for key, obj := range first {
		if uids[obj.GetUID()] {
			t.Errorf("%s has the UID %s, which another object or the recording has", key, obj.GetUID())
		}
		uids[obj.GetUID()] = true
		if created := obj.GetCreationTimestamp(); created.Time.Before(began) {
			t.Errorf("%s was created %s, before the start", key, created)
		}
	}
	if len(first) < 150 {
		t.Errorf("there are %d objects", len(first))
	}
	if diff := cmp.Diff(first, start()); diff != "" {
		t.Errorf("a second start changes objects (-first +second):\n%s", diff)
	}
}
