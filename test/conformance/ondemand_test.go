package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// onDemandFacts returns the facts of the resources that are disabled by default but can be enabled.
func onDemandFacts(t *testing.T) []Fact {
	t.Helper()
	facts, err := ReadFacts("testdata/facts/ondemand-resources.tsv", "testdata/facts/ondemand-subresources.tsv")
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// TestDiscoveryOnDemand compares discovery documents with the facts if all versions are enabled, if no beta or
// alpha version is enabled, if one additional version is enabled, and if some default versions and resources
// are disabled.
func TestDiscoveryOnDemand(t *testing.T) {
	t.Parallel()
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		compareDiscovery(t, slices.Concat(defaultFacts(t), onDemandFacts(t)), onDemand...)
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		compareDiscovery(t, defaultFacts(t), "--runtime-config=api/beta=false,api/alpha=false")
	})
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		facts := slices.DeleteFunc(onDemandFacts(t), func(f Fact) bool { return f.GroupVersion != "resource.k8s.io/v1beta2" })
		compareDiscovery(t, slices.Concat(defaultFacts(t), facts), "--runtime-config=resource.k8s.io/v1beta2")
	})
	t.Run("less", func(t *testing.T) {
		t.Parallel()
		facts := slices.DeleteFunc(defaultFacts(t), func(f Fact) bool {
			return f.GroupVersion == "batch/v1" || strings.HasPrefix(f.Key(), "apps/v1/deployments") || f.Name == "clustertrustbundles"
		})
		compareDiscovery(t, facts, "--runtime-config=batch/v1=false,apps/v1/deployments=false", "--feature-gates=ClusterTrustBundle=false,ClusterTrustBundleProjection=false")
	})
}

// fetcher is a client with the administrator's credentials.
type fetcher struct {
	base   string
	client *http.Client
}

func newFetcher(t *testing.T, srv *testserver.Server) *fetcher {
	t.Helper()
	client, err := rest.HTTPClientFor(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &fetcher{srv.URL(), client}
}

// do sends a request with body as JSON, or without a body if body is nil. It returns the status and the decoded
// response.
func (f *fetcher) do(t *testing.T, method, path string, body any) (int, map[string]any) {
	t.Helper()
	return f.send(t, method, path, "application/json", body)
}

// must is like do, but ends the test if the status is not want.
func (f *fetcher) must(t *testing.T, want int, method, path string, body any) map[string]any {
	t.Helper()
	return f.mustSend(t, want, method, path, "application/json", body)
}

func (f *fetcher) mustSend(t *testing.T, want int, method, path, contentType string, body any) map[string]any {
	t.Helper()
	status, liveResponse := f.send(t, method, path, contentType, body)
	if status != want {
		t.Fatalf("%s %s: status %d, want %d: %v", method, path, status, want, liveResponse["message"])
	}
	return liveResponse
}

func (f *fetcher) makeNamespace(t *testing.T, name string) {
	t.Helper()
	f.must(t, http.StatusCreated, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
}

func (f *fetcher) send(t *testing.T, method, path, contentType string, body any) (int, map[string]any) {
	t.Helper()
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, f.base+path, sent)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var liveResponse map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&liveResponse); err != nil && resp.StatusCode < 300 {
		t.Fatalf("decode the response of %s %s: %v", method, path, err)
	}
	return resp.StatusCode, liveResponse
}

// TestOpenAPIOnDemand checks that OpenAPI documents exist for all served versions and for no others.
func TestOpenAPIOnDemand(t *testing.T) {
	t.Parallel()
	server := newFetcher(t, testserver.New(t, testserver.Options{Flags: onDemand}))
	plain := newFetcher(t, testserver.New(t, testserver.Options{Flags: []string{"--runtime-config=batch/v1=false"}}))
	for _, fact := range onDemandFacts(t) {
		path := "/openapi/v3/apis/" + fact.GroupVersion
		status, document := server.do(t, http.MethodGet, path, nil)
		paths, _ := document["paths"].(map[string]any)
		scope := ""
		if fact.Namespaced == "true" {
			scope = "/namespaces/{namespace}"
		}
		if name, _, sub := strings.Cut(fact.Name, "/"); !sub && paths["/apis/"+fact.GroupVersion+scope+"/"+name] == nil {
			t.Errorf("%s: status %d, and no path of %s", path, status, fact.Name)
		}
		if status, _ := plain.do(t, http.MethodGet, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: status %d where it is not served", path, status)
		}
	}
	for _, path := range []string{"/openapi/v3/apis/batch/v1", "/apis/batch/v1", "/apis/batch", "/apis/batch/v1/jobs"} {
		if status, _ := plain.do(t, http.MethodGet, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: status %d where it is switched off", path, status)
		}
	}
}

// TestObjectsOnDemand creates, reads, updates and deletes an object of each kind in each version
// that is disabled by default.
func TestObjectsOnDemand(t *testing.T) {
	t.Parallel()
	skipShort(t, "TestRoundTrip creates the kinds that are enabled by default")
	dir, err := FixturesDir()
	if err != nil {
		t.Fatal(err)
	}
	server := newFetcher(t, testserver.New(t, testserver.Options{Flags: slices.Concat(onDemand, recordedFlags)}))
	server.makeNamespace(t, "on-demand")
	for _, fact := range onDemandFacts(t) {
		if strings.Contains(fact.Name, "/") {
			continue
		}
		t.Run(fact.Key(), func(t *testing.T) {
			t.Parallel()
			server.exerciseObject(t, fact, onDemandObject(t, dir, fact))
		})
	}
}

// onDemandObject returns a valid object of the kind. It is the recorded object, the object of acceptable, or
// the fixture, in this order of preference.
func onDemandObject(t *testing.T, dir string, fact Fact) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	content, ok := acceptable()[fact.Kind+"."+fact.GroupVersion]
	if !ok {
		content = acceptable()[fact.Kind]
	}
	body := recordedObject(t, fact)
	if body == nil {
		body = []byte(content)
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &object.Object); err != nil {
			t.Fatal(err)
		}
	} else {
		fixture, err := ReadFixture(dir, fact, Formats()[0])
		if err != nil {
			t.Fatal(err)
		}
		object.Object = jsonValue(t, fixture).(map[string]any)
	}
	name := object.GetName()
	if !strings.Contains(name, ".") { // the name of a StorageVersion has a fixed format
		name = strings.ReplaceAll(fact.GroupVersion, "/", ".") + "." + fact.Name
	}
	space := ""
	if fact.Namespaced == "true" {
		space = "on-demand"
	}
	if err := MakeOwn(object, space, name); err != nil {
		t.Fatal(err)
	}
	object.SetAPIVersion(fact.GroupVersion)
	object.SetKind(fact.Kind)
	return object
}

// recordedObject returns the minimal object of a kind, of any version, from the recordings of beta APIs. It
// returns nil if the kind was not recorded.
func recordedObject(t *testing.T, fact Fact) (body []byte) {
	t.Helper()
	group, version, _ := strings.Cut(fact.GroupVersion, "/")
	name := "builtin-beta/" + group
	if _, err := os.Stat(filepath.Join(recordingsDir, name+".jsonl.gz")); err != nil {
		return nil
	}
	for _, scenario := range readRecording(t, name).Scenarios {
		kind, what, _ := strings.Cut(scenario.Name, "/")
		created := creation(scenario, fact.Name)
		if what != "minimal" || !strings.HasPrefix(kind, fact.Name+".") || created < 0 {
			continue
		}
		body = scenario.Steps[created].Request.Body
		if kind == fact.Name+"."+group+"_"+version {
			break
		}
	}
	return body
}

// creation returns the index of the first step that creates an object of the resource, or -1.
func creation(scenario Scenario, resource string) int {
	return slices.IndexFunc(scenario.Steps, func(s Step) bool {
		return s.Request.Method == http.MethodPost && s.Response.Status == http.StatusCreated && strings.HasSuffix(s.Request.Path, "/"+resource)
	})
}

// acceptable returns valid objects for the kinds whose fixture is invalid. The keys are kinds, or kinds with a
// version.
func acceptable() map[string]string {
	const (
		// These kinds and versions are not recorded.
		policy = `{"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":["a"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["x"]}]},
			"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{}"}}]}}`
		binding   = `{"spec":{"policyName":"p.example.com"}}`
		candidate = `{"spec":{"leaseName":"l","binaryVersion":"1.37.0","emulationVersion":"1.37.0","strategy":"OldestEmulationVersion"}}`
		claim     = `{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}]}}}`
		flatClaim = `{"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"gpu"}]}}}`
		target    = `"target":{"pod":{"name":"p","uid":"00000000-0000-4000-8000-000000000001"}}`
		slice     = `{"spec":{"driver":"gpu.example.com","nodeName":"n","pool":{"name":"p","generation":1,"resourceSliceCount":1}}}`
	)
	return map[string]string{
		"MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": binding, "LeaseCandidate": candidate,
		"ResourceClaim": claim, "ResourceClaim.resource.k8s.io/v1beta1": flatClaim, "ResourceSlice": slice,
		"ResourceClaimTemplate": `{"spec":` + claim + `}`, "ResourceClaimTemplate.resource.k8s.io/v1beta1": `{"spec":` + flatClaim + `}`,
		"DeviceClass": `{"spec":{}}`, "Workload": `{"spec":{"podGroupTemplates":[{"name":"pg","schedulingPolicy":{"basic":{}}}]}}`,
		"PodGroup":          `{"spec":{"schedulingPolicy":{"basic":{}}}}`,
		"Eviction":          `{"spec":{` + target + `}}`,
		"EvictionRequest":   `{"spec":{"requester":"example.com/drainer","intent":"Eviction",` + target + `}}`,
		"CompositePodGroup": `{"spec":{"workloadRef":{"workloadName":"w","templateName":"t"},"schedulingPolicy":{"basic":{}}}}`,
	}
}

// exerciseObject creates, reads, updates and deletes an object.
func (f *fetcher) exerciseObject(t *testing.T, fact Fact, object *unstructured.Unstructured) {
	t.Helper()
	collection := fact.collection("on-demand")
	status, created := f.do(t, http.MethodPost, collection, object.Object)
	if status != http.StatusCreated {
		t.Fatalf("create: status %d: %v", status, created["message"])
	}
	path := collection + "/" + object.GetName()
	status, read := f.do(t, http.MethodGet, path, nil)
	if status != http.StatusOK {
		t.Fatalf("get: status %d: %v", status, read["message"])
	}
	status, written := f.do(t, http.MethodPut, path, read)
	if status != http.StatusOK {
		t.Fatalf("put: status %d: %v", status, written["message"])
	}
	was, is := unstructured.Unstructured{Object: read}, unstructured.Unstructured{Object: written}
	if was.GetResourceVersion() != is.GetResourceVersion() || is.GetAPIVersion() != fact.GroupVersion {
		t.Errorf("put back unchanged, %s of %s became %s of %s", was.GetResourceVersion(), was.GetAPIVersion(), is.GetResourceVersion(), is.GetAPIVersion())
	}
	if status, liveResponse := f.do(t, http.MethodDelete, path, nil); status != http.StatusOK {
		t.Errorf("delete: status %d: %v", status, liveResponse["message"])
	}
	if len(is.GetFinalizers()) > 0 { // a controller of kube-controller-manager removes them
		_, marked := f.do(t, http.MethodGet, path, nil)
		(&unstructured.Unstructured{Object: marked}).SetFinalizers(nil)
		if status, liveResponse := f.do(t, http.MethodPut, path, marked); status != http.StatusOK {
			t.Errorf("put without finalizers: status %d: %v", status, liveResponse["message"])
		}
	}
	if status, _ := f.do(t, http.MethodGet, path, nil); status != http.StatusNotFound {
		t.Errorf("get after delete: status %d", status)
	}
}
