package all_test

import (
	"cmp"
	"fmt"
	"testing"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/emulation"
)

// TestEmulatedStorageVersions checks that an emulated server stores objects in a version that a server
// of the emulated version can read.
func TestEmulatedStorageVersions(t *testing.T) {
	t.Parallel()
	for minor := emulation.Oldest; minor < emulation.Newest; minor++ {
		t.Run(fmt.Sprintf("1.%d", minor), func(t *testing.T) {
			t.Parallel()
			gates := feature.DefaultsOf(minor)
			release := emulation.New(minor, gates)
			resources, err := builtin.Build(&builtin.Env{Gates: gates, Release: release}, all.Groups())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range resources {
				if r.Kind == nil || r.Subresource != "" || !release.HasKind(r.Version.GVK) {
					continue
				}
				if stored := cmp.Or(r.Kind.Stored, r.Kind.Hub); !release.HasKind(stored.GVK) {
					t.Errorf("%s is stored as %s", r.GVR(), stored.GVK)
				}
			}
		})
	}
}

// TestEmulatedStorageVersion checks the storage version of a kind whose stable version is newer than the
// emulated version.
func TestEmulatedStorageVersion(t *testing.T) {
	t.Parallel()
	for minor, want := range map[int]string{33: "v1beta2", 34: "v1"} {
		gates := feature.DefaultsOf(minor)
		release := emulation.New(minor, gates)
		enablement, err := builtin.NewEnablement(map[string]string{"resource.k8s.io/v1beta2": "true"}, all.Versions())
		if err != nil {
			t.Fatal(err)
		}
		resources, err := builtin.Build(&builtin.Env{Gates: gates, Enablement: enablement, Release: release}, all.Groups())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resources {
			if r.Name != "deviceclasses" {
				continue
			}
			if stored := cmp.Or(r.Kind.Stored, r.Kind.Hub); stored.GVK.Version != want {
				t.Errorf("1.%d stores %s, want %s", minor, stored.GVK, want)
			}
		}
	}
}
