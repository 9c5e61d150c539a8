package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// A resource that only a server with beta APIs serves.
const (
	betaVersion  = "admissionregistration.k8s.io/v1beta1"
	betaPolicies = "/apis/" + betaVersion + "/mutatingadmissionpolicies"
)

// startPeers starts a server with beta APIs and a server without them. The second server forwards requests
// to the first server.
func startPeers(t *testing.T) (with, without *running) {
	t.Helper()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	at := func(host string) Config {
		config := withoutControllers(etcdConfig(cluster))
		config.Listen.Hostname, config.Storage.DataDir, config.Listen.Listener = host, t.TempDir(), listen(t)
		config.ControlPlane.Peers.AdvertiseIP, config.ControlPlane.Peers.AdvertisePort, _ = net.SplitHostPort(config.Listen.Listener.Addr().String())
		return config
	}
	one, two := at("with"), at("without")
	one.ControlPlane.Features.RuntimeConfig = map[string]string{betaVersion: "true"}
	with = start(t, one)
	keys := filepath.Join(two.Storage.DataDir, pkiDir)
	copyKeys(t, filepath.Join(one.Storage.DataDir, pkiDir), keys)
	two.Aggregation.PeerCAFile = filepath.Join(keys, "ca.crt")
	return with, start(t, two)
}

func copyKeys(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPeers checks that requests for resources that only another server serves are forwarded to this server,
// with the permissions of the user.
func TestPeers(t *testing.T) {
	t.Parallel()
	with, without := startPeers(t)
	testserver.Eventually(t, time.Minute, func() error {
		if code, body := without.do(t, "GET", betaPolicies, ""); code != 200 || !strings.Contains(body, `"apiVersion":"`+betaVersion+`"`) {
			return fmt.Errorf("list the policies: %d %s", code, body)
		}
		return nil
	})
	const policy = `{"metadata":{"name":"a"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"]}]},
"reinvocationPolicy":"Never","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{}"}}]}}`
	if code, body := without.do(t, "POST", betaPolicies, policy); code != 201 || !strings.Contains(body, betaVersion) {
		t.Errorf("POST: %d %s", code, body)
	}
	if code, body := with.do(t, "GET", betaPolicies+"/a", ""); code != 200 {
		t.Errorf("get after POST: %d %s", code, body)
	}
	if got := asJane(betaPolicies)(t, without); got != "403" {
		t.Errorf("request of a user without permissions: %s", got)
	}
	for _, path := range []string{"/apis/" + betaVersion + "/nothings", "/apis/nothing.example.com/v1/nothings"} {
		if code, _ := without.do(t, "GET", path, ""); code != 404 {
			t.Errorf("unknown resource: %d", code)
		}
	}
	if code, _ := fetch(t, without.admin, without.URL+betaPolicies, "X-Kubernetes-Peer-Proxied", "true"); code != 404 {
		t.Errorf("a forwarded request was forwarded again: %d", code)
	}
	if code, _ := with.do(t, "GET", "/apis/coordination.k8s.io/v1beta1/leasecandidates", ""); code != 404 {
		t.Errorf("request to a server that does not forward requests: %d", code)
	}
	if _, metrics := fetch(t, without.admin, without.URL+"/metrics"); !strings.Contains(metrics, `apiserver_rerouted_request_total{code="201",group="admissionregistration.k8s.io",resource="mutatingadmissionpolicies",version="v1beta1"} 1`) {
		t.Error("no metric of forwarded requests")
	}
	with.end(t)
	testserver.Eventually(t, time.Minute, func() error {
		if code, body := without.do(t, "GET", betaPolicies, ""); code != 404 {
			return fmt.Errorf("after the server has stopped: %d %s", code, body)
		}
		return nil
	})
}

// TestPeerDiscovery checks that discovery includes the resources of other servers, unless a client requests
// only the resources of the responding server.
func TestPeerDiscovery(t *testing.T) {
	t.Parallel()
	_, without := startPeers(t)
	has := func(profile string) bool {
		_, body := fetch(t, without.admin, without.URL+"/apis", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"+profile)
		var list apidiscovery.APIGroupDiscoveryList
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		for _, group := range list.Items {
			for _, version := range group.Versions {
				if group.Name+"/"+version.Version == betaVersion {
					return true
				}
			}
		}
		return false
	}
	testserver.Eventually(t, time.Minute, func() error {
		if !has("") {
			return errors.New("discovery lacks what another server has")
		}
		return nil
	})
	if has(";profile=nopeer") {
		t.Error("local discovery contains a resource of another server")
	}
}

// TestPeerFlags checks that invalid combinations of flags are rejected.
func TestPeerFlags(t *testing.T) {
	t.Parallel()
	off := Config{Aggregation: AggregationConfig{PeerCAFile: "ca.crt"}}
	off.ControlPlane.Features.Gates = feature.Set{feature.UnknownVersionInteroperabilityProxy: false}
	half, wrong := Config{}, Config{}
	half.ControlPlane.Peers.AdvertiseIP = "192.0.2.1"
	wrong.ControlPlane.Peers.AdvertiseIP, wrong.ControlPlane.Peers.AdvertisePort = "here", "70000"
	for want, config := range map[string]Config{
		"--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on": off,
		"must be given together":       half,
		"--peer-advertise-ip: ":        wrong,
		"--peer-advertise-port is \"7": wrong,
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want the error %q, got %v", want, err)
		}
	}
}
