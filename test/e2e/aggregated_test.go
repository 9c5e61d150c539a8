package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/extension"
	"mainstay.dev/mainstay/test/testserver"
)

const applesRegistration = `
apiVersion: v1
kind: Service
metadata: {name: apples}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.fruit.example.com}
spec:
  group: fruit.example.com
  version: v1
  groupPriorityMinimum: 2000
  versionPriority: 10
  caBundle: %s
  service: {namespace: %s, name: apples, port: %d}
`

// TestAggregatedServer uses an aggregated server with kubectl while the server runs, while it is stopped, and
// after it has been restarted.
func TestAggregatedServer(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	k := newKubectl(t, srv, t.TempDir())
	frontProxy, err := os.ReadFile(filepath.Join(srv.Dir(), "pki", "front-proxy-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	published := k.ok(args("get configmap -n kube-system extension-apiserver-authentication -o jsonpath={.data.requestheader-client-ca-file}")...)
	if testserver.InControlPlane() {
		frontProxy = []byte(published)
	}
	if strings.TrimSpace(published) != strings.TrimSpace(string(frontProxy)) {
		t.Errorf("other servers are received to trust %s", published)
	}
	apples := extension.Start(t, extension.Options{ServiceName: "apples." + k.namespace + ".svc", FrontProxy: frontProxy})
	k.okWith(fmt.Sprintf(applesRegistration, base64.StdEncoding.EncodeToString(apples.CABundle), k.namespace, apples.Port), "apply", "-f", "-")
	k.ok(args("wait apiservice/v1.fruit.example.com --for=condition=Available --timeout=30s")...)

	k.okWith(`{"apiVersion": "fruit.example.com/v1", "kind": "Apple", "metadata": {"name": "gala"}, "color": "red"}`, "create", "-f", "-")
	k.printsAll(args("get apples"), "gala")
	k.prints("red", args("get ap gala -o jsonpath={.color}")...)
	k.printsAll(args("api-resources --api-group=fruit.example.com"), "apples", "ap", "fruit.example.com/v1", "true", "Apple")
	k.printsAll(args("explain apples.color"), "What it looks like.")
	k.printsAll(args("get apiservice v1.fruit.example.com"), k.namespace+"/apples", "True")

	apples.Kill()
	k.failsWith("", 1, "(ServiceUnavailable)", args("get apples")...)
	k.ok(args("wait apiservice/v1.fruit.example.com --for=condition=Available=false --timeout=45s")...)
	k.printsAll(args("get namespace default"), "Active")
	k.printsAll(args("api-resources --api-group=apps"), "deployments")

	apples.Resume(t)
	k.ok(args("wait apiservice/v1.fruit.example.com --for=condition=Available --timeout=45s")...)
	k.printsAll(args("get apples"), "gala")
	k.ok(args("delete apiservice v1.fruit.example.com")...)
	k.fails(1, "(NotFound)", "get", "apples") // kubectl has cached the discovery of apples
}
