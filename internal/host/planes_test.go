package host

import (
	"testing"

	"mainstay.dev/mainstay/internal/controlplane"
)

// TestControlPlanes checks that a prefix can be used again after its control plane was closed, and that a host
// that is not running rejects control planes.
func TestControlPlanes(t *testing.T) {
	t.Parallel()
	const prefix = "/tenants/a"
	idle, err := New(Config{Storage: StorageConfig{DataDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := idle.ControlPlane(prefix, controlplane.Options{}); err == nil || err.Error() != "the host is not running yet: open control planes after Config.OnServing has been called" {
		t.Errorf("before Run: %v", err)
	}

	host := start(t, Config{}).host
	for range 2 {
		plane, err := host.ControlPlane(prefix, controlplane.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := plane.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := host.ControlPlane(prefix+"/b", controlplane.Options{}); err == nil {
			t.Error("a control plane was opened below the prefix of another one")
		}
		plane.Close()
	}
}
