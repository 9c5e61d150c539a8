package host

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/test/extension"
	"mainstay.dev/mainstay/test/testserver"
)

var (
	apiServicesGVR = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	servicesGVR    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	applesPath     = "/apis/" + extension.Group + "/" + extension.Version
)

const applesService = extension.Version + "." + extension.Group

// orchard is a server together with an aggregated server.
type orchard struct {
	*running
	*extension.Server
	client dynamic.Interface
}

func newOrchard(t *testing.T, config Config, options extension.Options) *orchard {
	t.Helper()
	config.Storage.DataDir = t.TempDir()
	o := &orchard{running: start(t, config)}
	options.ServiceName = "apples.default.svc"
	var err error
	if options.FrontProxy, err = os.ReadFile(filepath.Join(config.Storage.DataDir, "pki", "front-proxy-ca.crt")); err != nil {
		t.Fatal(err)
	}
	o.Server, o.client = extension.Start(t, options), dynamicClient(t, o.running)
	o.create(t, servicesGVR.GroupResource(), map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "apples", "namespace": "default"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost"},
	})
	return o
}

func (o *orchard) create(t *testing.T, resource schema.GroupResource, object map[string]any) {
	t.Helper()
	gvr := apiServicesGVR
	if resource == servicesGVR.GroupResource() {
		gvr = servicesGVR
	}
	u := &unstructured.Unstructured{Object: object}
	if _, err := o.client.Resource(gvr).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// register creates the APIService. It does not wait until the service is available.
func (o *orchard) register(t *testing.T, change func(spec map[string]any)) {
	t.Helper()
	spec := map[string]any{
		"group": extension.Group, "version": extension.Version, "groupPriorityMinimum": int64(2000), "versionPriority": int64(10),
		"caBundle": o.CABundle, "service": map[string]any{"namespace": "default", "name": "apples", "port": int64(o.Port)},
	}
	if change != nil {
		change(spec)
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": applesService}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	o.create(t, apiServicesGVR.GroupResource(), object)
}

// await waits until a condition of the APIService has the given reason.
func (o *orchard) await(t *testing.T, reason string) {
	t.Helper()
	seen := ""
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		service, err := o.client.Resource(apiServicesGVR).Get(ctx, applesService, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		for _, c := range conditions {
			seen = fmt.Sprint(c)
			if c.(map[string]any)["reason"] == reason {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatalf("wait for %s: %v; it is %s", reason, err, seen)
	}
}

func (o *orchard) get(t *testing.T, path string, header ...string) (int, string) {
	t.Helper()
	return fetch(t, o.admin, o.URL+path, header...)
}

func TestAggregatedRequests(t *testing.T) {
	t.Parallel()
	o := newOrchard(t, Config{}, extension.Options{})
	o.register(t, nil)
	if status, body := o.get(t, applesPath+"/apples"); status != http.StatusServiceUnavailable || body != "service unavailable\n" {
		if status != http.StatusOK { // the service might already be available
			t.Errorf("before it is available: %d %q", status, body)
		}
	}
	o.await(t, "Passed")
	created, err := o.admin.Post(o.URL+applesPath+"/namespaces/default/apples", "application/json", strings.NewReader(`{"metadata":{"name":"gala"},"color":"red"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = created.Body.Close()
	if created.StatusCode != http.StatusCreated {
		t.Errorf("create: %d", created.StatusCode)
	}
	if status, body := o.get(t, applesPath+"/namespaces/default/apples/gala"); status != http.StatusOK || !strings.Contains(body, `"color":"red"`) {
		t.Errorf("get: %d %s", status, body)
	}
	if status, body := o.get(t, applesPath+"/namespaces/default/apples/none"); status != http.StatusNotFound || !strings.Contains(body, `"reason":"NotFound"`) {
		t.Errorf("get a missing object: %d %s", status, body)
	}
	if status, body := o.get(t, applesPath); status != http.StatusOK || !strings.Contains(body, `"kind":"APIResourceList"`) {
		t.Errorf("the group version: %d %s", status, body)
	}
	anonymous := client(t, nil)
	if status, _ := fetch(t, anonymous, o.URL+applesPath+"/apples"); status != http.StatusForbidden {
		t.Errorf("an unauthorized user: %d", status)
	}
}

// TestAggregatedIdentity checks that the aggregated server receives the identity of the authenticated user,
// not the identity that the client claims in request headers.
func TestAggregatedIdentity(t *testing.T) {
	t.Parallel()
	o := newOrchard(t, Config{}, extension.Options{})
	o.register(t, nil)
	o.await(t, "Passed")
	status, body := o.get(t, applesPath+"/namespaces/default/apples/gala/whoami?x=1", "X-Remote-User", "root", "X-Remote-Group", "gods",
		"X-Remote-Extra-Power", "all", "Authorization", "", "X-Forwarded-For", "203.0.113.1", "Custom", "kept")
	if status != http.StatusOK {
		t.Fatalf("get whoami: %d %s", status, body)
	}
	var who struct {
		User        string
		Groups      []string
		Extra       map[string][]string
		Headers     http.Header
		Host, Proto string
	}
	if err := json.Unmarshal([]byte(body), &who); err != nil {
		t.Fatal(err)
	}
	if who.User != adminUser || !slices.Contains(who.Groups, "system:masters") || who.Extra["power"] != nil || len(who.Extra["authentication.kubernetes.io/credential-id"]) != 1 {
		t.Errorf("identity at the extension server: %+v", who)
	}
	if slices.Contains(who.Groups, "gods") || who.Headers.Get("Authorization") != "" {
		t.Errorf("the identity or the credentials of the client's headers were forwarded: %v", who.Headers)
	}
	for name, want := range map[string]string{"Custom": "kept", "X-Forwarded-For": "203.0.113.1, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Uri": applesPath + "/namespaces/default/apples/gala/whoami"} {
		if got := strings.Join(who.Headers.Values(name), ", "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if who.Host != fmt.Sprintf("apples.default.svc:%d", o.Port) || who.Proto != "HTTP/2.0" || who.Headers.Get("Audit-Id") == "" {
		t.Errorf("request at the extension server: host %s, protocol %s, headers %v", who.Host, who.Proto, who.Headers)
	}
}

// TestAggregatedWatch checks that events are delivered immediately, and that the watch ends
// gracefully when the server stops.
func TestAggregatedWatch(t *testing.T) {
	t.Parallel()
	o := newOrchard(t, Config{}, extension.Options{})
	o.register(t, nil)
	o.await(t, "Passed")
	watching, err := o.admin.Get(o.URL + applesPath + "/apples?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Body.Close()
	lines := bufio.NewScanner(watching.Body)
	for _, name := range []string{"gala", "fuji"} {
		created, err := o.admin.Post(o.URL+applesPath+"/namespaces/default/apples", "application/json", strings.NewReader(`{"metadata":{"name":"`+name+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = created.Body.Close()
		if !lines.Scan() || !strings.Contains(lines.Text(), `"`+name+`"`) {
			t.Fatalf("the event is %q: %v", lines.Text(), lines.Err())
		}
	}
	o.stop()
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("the watch ended with %q: %v", lines.Text(), lines.Err())
	}
}

func TestAggregatedTunnel(t *testing.T) {
	t.Parallel()
	// Upgraded connections may last longer than the request timeout.
	o := newOrchard(t, Config{ControlPlane: controlplane.Options{Requests: controlplane.RequestOptions{Timeout: 700 * time.Millisecond}}}, extension.Options{})
	o.register(t, nil)
	o.await(t, "Passed")
	config, err := websocket.NewConfig(strings.Replace(o.URL, "https", "wss", 1)+applesPath+"/namespaces/default/apples/gala/echo", "https://example.com")
	if err != nil {
		t.Fatal(err)
	}
	config.TlsConfig = o.tlsConfig(t)
	var conn *websocket.Conn
	testserver.Eventually(t, time.Minute, func() (err error) { // on a loaded machine, the upgrade itself can exceed the timeout
		conn, err = websocket.DialConfig(config)
		return err
	})
	defer conn.Close()
	for begun := time.Now(); time.Since(begun) < time.Second; {
		if err := websocket.Message.Send(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := websocket.Message.Receive(conn, &got); err != nil || got != "hello" {
			t.Fatalf("echo %q, error %v; want hello", got, err)
		}
	}
	o.stop()
	if err := websocket.Message.Receive(conn, new(string)); err == nil {
		t.Error("the tunnel outlasts the server")
	}
}

func TestAggregatedDiscovery(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"aggregated": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrchard(t, Config{}, extension.Options{Plain: plain})
			o.register(t, nil)
			o.await(t, "Passed")
			if status, body := o.get(t, "/apis/"+extension.Group); status != http.StatusOK || !strings.Contains(body, `"groupVersion":"fruit.example.com/v1"`) {
				t.Errorf("the group: %d %s", status, body)
			}
			got := o.discovered(t)
			if got.freshness != "Current" || !slices.Equal(got.resources, []string{"apples"}) || !slices.Equal(got.subresources, []string{"whoami"}) {
				t.Errorf("discovered group %+v, want current apples with whoami", got)
			}
			if diff := cmp.Diff([]string{"apiregistration.k8s.io", "apps"}, got.groups[:2]); diff != "" || slices.Index(got.groups, extension.Group) < slices.Index(got.groups, "storagemigration.k8s.io") {
				t.Errorf("the order of groups: %v", got.groups)
			}
			o.Kill()
			o.get(t, applesPath+"/apples") // the server detects the failure by this request
			o.await(t, "FailedDiscoveryCheck")
			if got := o.discovered(t); got.freshness != "Stale" || !slices.Equal(got.resources, []string{"apples"}) {
				t.Errorf("discovery while the aggregated server is stopped: %+v", got)
			}
			if status, body := o.get(t, applesPath+"/apples"); status != http.StatusServiceUnavailable || body != "service unavailable\n" {
				t.Errorf("request while the aggregated server is stopped: %d %q", status, body)
			}
			if status, _ := o.get(t, "/api/v1/namespaces/default"); status != http.StatusOK {
				t.Errorf("built-in resource while the aggregated server is stopped: %d", status)
			}
			o.Resume(t)
			o.await(t, "Passed")
			if got := o.discovered(t); got.freshness != "Current" {
				t.Errorf("discovery after the restart of the aggregated server: %+v", got)
			}
			if err := o.client.Resource(apiServicesGVR).Delete(t.Context(), applesService, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if status, _ := o.get(t, applesPath+"/apples"); status != http.StatusNotFound {
				t.Errorf("after the registration was deleted: %d", status)
			}
			if got := o.discovered(t); slices.Contains(got.groups, extension.Group) {
				t.Errorf("after the registration was deleted: %v", got.groups)
			}
		})
	}
}

// discovered contains the aggregated discovery of the resource apples.
type discovered struct {
	groups                  []string
	freshness               string
	resources, subresources []string
}

func (o *orchard) discovered(t *testing.T) discovered {
	t.Helper()
	_, body := o.get(t, "/apis", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta
			Versions []struct {
				Freshness string
				Resources []struct {
					Resource     string
					Subresources []struct{ Subresource string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	var out discovered
	for _, group := range list.Items {
		out.groups = append(out.groups, group.Metadata.Name)
		if group.Metadata.Name != extension.Group {
			continue
		}
		out.freshness = group.Versions[0].Freshness
		for _, r := range group.Versions[0].Resources {
			out.resources = append(out.resources, r.Resource)
			for _, sub := range r.Subresources {
				out.subresources = append(out.subresources, sub.Subresource)
			}
		}
	}
	return out
}

func TestAggregatedOpenAPI(t *testing.T) {
	t.Parallel()
	o := newOrchard(t, Config{}, extension.Options{})
	_, before := o.get(t, "/openapi/v2")
	o.register(t, nil)
	o.await(t, "Passed")
	if status, body := o.get(t, "/openapi/v3"); status != http.StatusOK || !strings.Contains(body, `"apis/fruit.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/fruit.example.com/v1?hash=ABCDEF"}`) {
		t.Errorf("the index: %d %s", status, body)
	}
	if status, body := o.get(t, "/openapi/v3/apis/fruit.example.com/v1?hash=ABCDEF"); status != http.StatusOK || !strings.Contains(body, "something to eat") {
		t.Errorf("the document: %d %s", status, body)
	}
	var document struct {
		Paths, Parameters map[string]any
		Definitions       map[string]any
	}
	status, body := o.get(t, "/openapi/v2")
	if err := json.Unmarshal([]byte(body), &document); err != nil || status != http.StatusOK {
		t.Fatalf("get the OpenAPI v2 document: code %d, error %v", status, err)
	}
	const meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	if document.Paths[applesPath+"/namespaces/{namespace}/apples"] == nil || document.Parameters["namespace-fruit"] == nil {
		t.Error("paths or referenced schemas are missing")
	}
	if document.Paths["/healthz"] != nil || document.Definitions["com.example.fruit.Unused"] != nil {
		t.Error("the document contains unrequested paths")
	}
	apple, err := json.Marshal(document.Definitions["com.example.fruit.Apple"])
	if err != nil || !strings.Contains(string(apple), meta+"_v2") || document.Definitions[meta+"_v2"] == nil || document.Definitions[meta] == nil {
		t.Errorf("a different schema has no separate name: %s", apple)
	}
	if err := o.client.Resource(apiServicesGVR).Delete(t.Context(), applesService, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, after := o.get(t, "/openapi/v2"); after != before {
		t.Error("the document differs from before the registration")
	}
}

// TestAggregatedMisbehavior checks that clients receive a response in time, even if the aggregated server
// misbehaves.
func TestAggregatedMisbehavior(t *testing.T) {
	t.Parallel()
	o := newOrchard(t, Config{ControlPlane: controlplane.Options{Requests: controlplane.RequestOptions{Timeout: 5 * time.Second}}}, extension.Options{})
	o.register(t, nil)
	o.await(t, "Passed")
	tests := []struct {
		name    string
		answer  http.HandlerFunc
		status  int
		message string
	}{
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusFound)
		},
			http.StatusBadGateway, "the backend attempted to redirect this request, which is not permitted"},
		{"connection closed without a response", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			http.StatusServiceUnavailable, "error trying to reach service"},
		{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			http.StatusGatewayTimeout, "request did not complete"},
		{"an error of its own", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "I am a teapot", http.StatusTeapot) },
			http.StatusTeapot, "I am a teapot"},
		{"nonsense", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte{0xff, 0}, 1000)) }, http.StatusOK, "\xff"},
		{"a huge header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Huge", strings.Repeat("x", 3<<19)) },
			http.StatusServiceUnavailable, "error trying to reach service"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o.SetHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == applesPath || r.URL.Path == "/apis" { // let the availability check succeed
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"fruit.example.com/v1","resources":[]}`)
					return
				}
				tt.answer(w, r)
			}))
			status, body := o.get(t, applesPath+"/apples")
			if status != tt.status || !strings.Contains(body, tt.message) {
				t.Errorf("%d %.100q, want %d %q", status, body, tt.status, tt.message)
			}
		})
	}
}

func TestAggregatedUnavailable(t *testing.T) {
	t.Parallel()
	other, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, reason string
		change       func(o *orchard, spec map[string]any)
		instead      http.HandlerFunc
	}{
		{"another authority", "FailedDiscoveryCheck", func(_ *orchard, spec map[string]any) {
			spec["caBundle"] = other.Bundle()
		}, nil},
		{"no service", "ServiceNotFound", func(_ *orchard, spec map[string]any) {
			spec["service"].(map[string]any)["name"] = "pears"
		}, nil},
		{"no discovery", "FailedDiscoveryCheck", nil, http.NotFound},
		{"nobody trusted", "FailedDiscoveryCheck", nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }},
		{"any certificate", "Passed", func(_ *orchard, spec map[string]any) {
			delete(spec, "caBundle")
			spec["insecureSkipTLSVerify"] = true
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrchard(t, Config{}, extension.Options{})
			if tt.instead != nil {
				o.SetHandler(tt.instead)
			}
			o.register(t, func(spec map[string]any) {
				if tt.change != nil {
					tt.change(o, spec)
				}
			})
			o.await(t, tt.reason)
			want := http.StatusServiceUnavailable
			if tt.reason == "Passed" {
				want = http.StatusOK
			}
			if status, body := o.get(t, applesPath+"/apples"); status != want {
				t.Errorf("%d %q, want %d", status, body, want)
			}
			_, body := o.get(t, "/metrics")
			if metric := `aggregator_unavailable_apiservice{name="v1.fruit.example.com"} `; !strings.Contains(body, metric) {
				t.Errorf("no metric %s", metric)
			}
		})
	}
}

// TestAggregatedDying sends concurrent requests to an aggregated server that is killed and restarted. It
// checks that each request receives a response, which may be incomplete.
func TestAggregatedDying(t *testing.T) {
	t.Parallel()
	o := newOrchard(t, Config{}, extension.Options{})
	o.register(t, nil)
	o.await(t, "Passed")
	var clients sync.WaitGroup
	done := make(chan struct{})
	for range 16 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				response, err := o.admin.Get(o.URL + applesPath + "/apples")
				if err != nil && strings.Contains(err.Error(), "stream error") {
					continue // the response was interrupted after its start
				}
				if err != nil {
					t.Errorf("no response: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body) // the response may be interrupted
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("status %d", response.StatusCode)
					return
				}
			}
		})
	}
	for range 3 {
		o.Kill()
		o.await(t, "FailedDiscoveryCheck")
		o.Resume(t)
		o.await(t, "Passed")
	}
	close(done)
	clients.Wait()
}

// TestLocalAPIServices checks that the server's own group versions are registered, and that a deleted
// registration is created again.
func TestLocalAPIServices(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	c := dynamicClient(t, s)
	names := func() []string {
		list, err := c.Resource(apiServicesGVR).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		return names
	}
	if all := names(); !slices.Contains(all, "v1.") || !slices.Contains(all, "v2.autoscaling") || slices.Contains(all, "v1.apiregistration.k8s.io") {
		t.Errorf("at the start there are %v", all)
	}
	crd := definitionOf("example.com", "Widget", map[string]string{"v1": `{"type":"object"}`}, "v1")
	establish(t, c, crd)
	awaitNames := func(why, name string, want bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
			return slices.Contains(names(), name) == want, nil
		})
		if err != nil {
			t.Fatalf("%s: wait for %s, listed: %t: %v", why, name, want, err)
		}
	}
	awaitNames("a definition", "v1.example.com", true)
	for _, name := range []string{"v1.example.com", "v1.apps"} {
		if err := c.Resource(apiServicesGVR).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitNames("deleted", name, true)
	}
	if err := c.Resource(definitionsGVR).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitNames("the definition is gone", "v1.example.com", false)
}

// tlsConfig returns the administrator's TLS configuration.
func (r *running) tlsConfig(t *testing.T) *tls.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	out, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
