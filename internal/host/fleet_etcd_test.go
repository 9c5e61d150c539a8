package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// TestControlPlaneServers checks that all servers that share an etcd cluster serve a control plane. After the
// control plane is deleted, no server serves it and no keys remain.
func TestControlPlaneServers(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	servers := []*running{start(t, etcdConfig(cluster)), start(t, etcdConfig(cluster))}
	first := servers[0].tenant(t, "a", `{}`)
	second := *first
	second.URL = servers[1].URL + "/clusters/a"
	second.admin = client(t, nil)
	token := first.accountToken(t)
	first.must(t, "POST", configMapPath, `{"metadata":{"name":"x"}}`)
	testserver.Eventually(t, time.Minute, func() error { // the second server receives the changes later
		if code := withToken(t, servers[1], token, "/clusters/a/api"); code != "200" {
			return fmt.Errorf("request to the second server: code %s, want 200", code)
		}
		return nil
	})
	servers[1].expectCode(t, 200, `"x"`, "GET", "/clusters/a"+configMapPath+"/x")
	servers[1].must(t, "DELETE", controlPlanePath+"/a", "")
	for _, s := range servers {
		s.awaitCode(t, controlPlanePath+"/a", 404)
		testserver.Eventually(t, time.Minute, func() error {
			if code := withToken(t, s, token, "/clusters/a/api"); code != "401" {
				return fmt.Errorf("request to the deleted control plane: code %s, want 401", code)
			}
			if n := s.keysOf(t, ""); n != 0 {
				return fmt.Errorf("%d keys remain", n)
			}
			return nil
		})
	}
}

// TestForkServers checks forks with two servers that share an etcd cluster. One of the servers copies the
// objects.
func TestForkServers(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	servers := []*running{start(t, etcdConfig(cluster)), start(t, etcdConfig(cluster))}
	s := servers[0]
	a := s.tenant(t, "a", `{}`)
	const objects = 300 // more than one commit
	want := map[string]string{}
	for i := range objects {
		name := fmt.Sprint("c", i)
		a.createConfigMap(t, name, "a")
		want[name] = "a"
	}
	b := s.tenant(t, "b", `{"from":{"controlPlane":"a"}}`)
	a.setConfigMap(t, "c1", "changed")
	b.setConfigMap(t, "c0", "b")
	want["c0"] = "b"
	b.expectValues(t, want)
	b.role(t, "view")
	c := s.tenant(t, "c", `{"from":{"controlPlane":"b"}}`)
	c.must(t, "DELETE", configMapPath+"/c2", "")
	b.expectValues(t, want)
	delete(want, "c2")
	c.expectValues(t, want)
	root := s.tenant(t, "root-fork", `{"from":{}}`)
	root.role(t, "view")
	for _, path := range []string{secretPath + "/a-kubeconfig", controlPlanePath} {
		root.expectCode(t, 404, "", "GET", path)
	}
	testserver.Eventually(t, time.Minute, func() error { // the second server receives the changes later
		if code, text := servers[1].do(t, "GET", "/clusters/c"+configMapPath+"/c0", ""); code != 200 || !strings.Contains(text, `"k":"b"`) {
			return fmt.Errorf("get c0 from the second server: %d %s", code, text)
		}
		return nil
	})
}

// TestControlPlaneRestart stops the server while control planes are created and deleted. It checks that
// afterwards each control plane either exists with its objects or has no keys.
func TestControlPlaneRestart(t *testing.T) {
	t.Parallel()
	config := Config{}
	config.Storage.DataDir = t.TempDir()
	s := start(t, config)
	token := s.tenant(t, "kept", `{}`).accountToken(t)
	for i := range 4 {
		s.tenant(t, fmt.Sprint("gone-", i), `{}`).must(t, "POST", configMapPath, `{"metadata":{"name":"x"}}`)
	}
	for i := range 4 {
		s.must(t, "DELETE", controlPlanePath+fmt.Sprint("/gone-", i), "")
		s.declare(t, fmt.Sprint("new-", i), `{}`)
	}
	s.stop()
	s.end(t)
	config.Listen.Listener = nil
	again := start(t, config)
	for i := range 4 {
		again.awaitCode(t, controlPlanePath+fmt.Sprint("/gone-", i), 404)
		again.awaitPhase(t, fmt.Sprint("new-", i), "Ready")
		testserver.Eventually(t, time.Minute, func() error { // the kubeconfig is updated with the new port
			if entered := again.enter(t, fmt.Sprint("new-", i)); !strings.HasPrefix(entered.URL, again.URL) {
				return fmt.Errorf("the kubeconfig has the address %s", entered.URL)
			}
			return nil
		})
		again.enter(t, fmt.Sprint("new-", i)).expectCode(t, 200, "", "GET", "/api")
	}
	if code := withToken(t, again, token, "/clusters/kept/api"); code != "200" {
		t.Errorf("a token from before the restart: %s", code)
	}
	testserver.Eventually(t, time.Minute, func() error {
		if n := again.keysOf(t, "/identity"); n != 5 {
			return fmt.Errorf("%d control planes are in the store, want 5", n)
		}
		return nil
	})
}
