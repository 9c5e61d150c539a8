package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/test/testserver"
)

const clusterRolePath = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

// role returns the ClusterRole with the given name.
func (r *running) role(t testing.TB, name string) *rbacv1.ClusterRole {
	t.Helper()
	var role rbacv1.ClusterRole
	if err := json.Unmarshal([]byte(r.must(t, "GET", clusterRolePath+"/"+name, "")), &role); err != nil {
		t.Fatal(err)
	}
	return &role
}

// reenter is like enter, but first waits until the kubeconfig is updated after a restart.
func (r *running) reenter(t testing.TB, name string) *running {
	t.Helper()
	testserver.Eventually(t, time.Minute, func() error {
		if url := r.controlPlane(t, name).Status.URL; !strings.HasPrefix(url, r.URL+"/") {
			return fmt.Errorf("the control plane has the URL %s", url)
		}
		return nil
	})
	return r.enter(t, name)
}

// TestControlPlaneTemplate checks that control planes share the default objects, and that changes and deletions
// of these objects in one control plane do not affect another one.
func TestControlPlaneTemplate(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	a, b := s.tenant(t, "a", `{}`), s.tenant(t, "b", `{}`)
	own, other := a.role(t, "view"), b.role(t, "view")
	if len(own.Rules) == 0 || own.CreationTimestamp.Year() < 2026 {
		t.Errorf("the role is %+v", own)
	}
	if own.UID == other.UID {
		t.Errorf("roles of two control planes have the UID %s", own.UID)
	}
	own.Labels["changed"] = "true"
	body, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	a.must(t, "PUT", clusterRolePath+"/view", string(body))
	a.must(t, "DELETE", clusterRolePath+"/edit", "")
	a.expectCode(t, 404, "", "GET", clusterRolePath+"/edit")
	if code, text := a.do(t, "PUT", clusterRolePath+"/view", string(body)); code != 409 {
		t.Errorf("an outdated resourceVersion: %d %s", code, text)
	}
	if b.role(t, "view").Labels["changed"] != "" || b.role(t, "edit").Name != "edit" {
		t.Error("the changes are visible in another control plane")
	}
	testserver.Eventually(t, time.Minute, func() error {
		if s.host.fleet.CloseIdle(0); s.host.fleet.IsOpen("a") {
			return errors.New("its controllers are busy")
		}
		return nil
	})
	// When the control plane opens again, it restores the deleted role, as a cluster does after a restart.
	if a.role(t, "view").Labels["changed"] != "true" || a.role(t, "edit").Name != "edit" {
		t.Error("after reopening, the changes are missing, or the deleted role was not restored")
	}
}

// TestControlPlaneTemplateVersions checks that control planes continue to work after the default objects of the
// server have changed, and that they receive the new default objects.
func TestControlPlaneTemplateVersions(t *testing.T) {
	t.Parallel()
	const registration = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.internal.apiserver.k8s.io"
	config := Config{Storage: StorageConfig{DataDir: t.TempDir()}}
	s := start(t, config)
	a := s.tenant(t, "a", `{}`)
	a.expectCode(t, 404, "", "GET", registration)
	before := a.role(t, "view")
	s.end(t)
	config.ControlPlane.Features.RuntimeConfig = map[string]string{"api/alpha": "true"}
	s = start(t, config)
	a, b := s.reenter(t, "a"), s.tenant(t, "b", `{}`)
	for _, plane := range []*running{a, b} {
		plane.expectCode(t, 200, "", "GET", registration)
	}
	if after := a.role(t, "view"); after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the role was replaced: UID %s at %s, previously %s at %s", after.UID, after.ResourceVersion, before.UID, before.ResourceVersion)
	}
}

// TestControlPlaneTemplateEncrypted checks that the default objects of a control plane can be read if all
// resources are encrypted.
func TestControlPlaneTemplateEncrypted(t *testing.T) {
	t.Parallel()
	config := Config{Storage: StorageConfig{DataDir: t.TempDir(), Encryption: EncryptionConfig{
		File: encryptionConfig(t, filepath.Join(t.TempDir(), "config"), "'*.*'", keyed("secretbox", "k")),
	}}}
	s := start(t, config)
	a := s.tenant(t, "a", `{}`)
	before := a.role(t, "view")
	a.must(t, "DELETE", clusterRolePath+"/edit", "")
	s.end(t)
	s = start(t, config)
	if after := s.reenter(t, "a").role(t, "view"); after.UID != before.UID {
		t.Errorf("the role has the UID %s, want %s", after.UID, before.UID)
	}
}
