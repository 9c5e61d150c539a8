package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"

	"mainstay.dev/mainstay/test/testserver"
)

// TestHelmPast reads a release at an earlier revision and undoes an upgrade.
func TestHelmPast(t *testing.T) {
	t.Parallel()
	testserver.RootOnly(t, "other control planes have no history")
	srv := testserver.New(t, testserver.Options{Dir: t.TempDir()})
	h := newHelm(t, srv, filepath.Join("testdata", "chart"))
	h.install(true)
	at := "rv/" + must[*metav1.PartialObjectMetadataList](t)(h.metadata.Resource(definitionsResource).List(t.Context(), metav1.ListOptions{})).ResourceVersion
	h.upgrade(map[string]any{"replicas": 3, "greeting": "changed", "extra": true})
	h.wantHistory("superseded", "deployed")
	if got := h.version(); got != 2 {
		t.Fatalf("the release has version %d, want 2", got)
	}

	server := srv.URL() + "/at/" + at
	past := *h
	past.config = newHelmConfig(t, srv.Kubeconfig(), h.namespace, server)
	if got := past.version(); got != 1 {
		t.Errorf("the release had version %d, want 1", got)
	}
	status := must[release.Releaser](t)(action.NewStatus(past.config).Run(releaseName)).(*releasev1.Release)
	if status.Info.Status != "deployed" || status.Version != 1 {
		t.Errorf("the status was %s of version %d, want deployed of version 1", status.Info.Status, status.Version)
	}
	if values := must[map[string]any](t)(action.NewGetValues(past.config).Run(releaseName)); values["greeting"] == "changed" {
		t.Errorf("the values were %v", values)
	}

	binary := must[string](t)(testserver.Binary())
	undo := exec.CommandContext(t.Context(), binary, "undo", "-n", h.namespace, "--since="+at, "--yes", "--kubeconfig="+srv.Kubeconfig())
	if out, err := undo.CombinedOutput(); err != nil || !strings.Contains(string(out), "deleted") {
		t.Fatalf("undo: %v\n%s", err, out)
	}
	h.wantHistory("deployed")
	if got := h.version(); got != 1 {
		t.Errorf("the release has version %d, want 1", got)
	}
	h.wantRelease(1, "hello", false)
	h.upgrade(map[string]any{"greeting": "again"}) // Helm continues from the restored state
	h.wantHistory("superseded", "deployed")
}

// version returns the version of the only release in Helm's list.
func (h *helm) version() int {
	h.t.Helper()
	list := action.NewList(h.config)
	releases := must[[]release.Releaser](h.t)(list.Run())
	if len(releases) != 1 {
		h.t.Fatalf("%d releases, want 1", len(releases))
	}
	return releases[0].(*releasev1.Release).Version
}
