package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

const (
	historyMap = configMaps + "/a"
	pastMap    = "/api/v1/namespaces/default/configmaps/a"
)

// at returns the path that requests the state of path at a revision.
func at(revision, path string) string { return "/at/rv/" + revision + path }

// revisionOf returns the resourceVersion of an object or list.
func revisionOf(t *testing.T, body string) string {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatal(err)
	}
	return object.ResourceVersion
}

// stream sends a GET request and returns the response body, which might not end. The request is canceled after
// a minute.
func (r *running) stream(t *testing.T, path string) io.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, "GET", r.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := r.admin.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response.Body
}

// expectCode sends a request as the administrator. It checks the status code, and that the response body
// contains part. It returns the body.
func (r *running) expectCode(t *testing.T, want int, part, method, path string, header ...string) string {
	t.Helper()
	code, body := r.send(t, method, path, "", header...)
	if code != want || !strings.Contains(body, part) {
		t.Errorf("%s %s: %d %s, want %d with %q", method, path, code, body, want, part)
	}
	return body
}

// TestPast reads objects, lists, tables and documents at earlier revisions and times, before and after a
// restart. They include objects whose definitions were deleted.
func TestPast(t *testing.T) {
	t.Parallel()
	config := withoutControllers(Config{})
	config.Storage.DataDir = t.TempDir()
	s := start(t, config)
	first := revisionOf(t, s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"1"}}`))
	s.must(t, "PUT", historyMap, `{"metadata":{"name":"a"},"data":{"x":"2"}}`)
	establish(t, dynamicClient(t, s), definitionOf("example.com", "Widget", map[string]string{"v1": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`}, "v1"))
	const widgets = "/apis/example.com/v1/widgets"
	second := revisionOf(t, s.must(t, "POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":7}}`))
	s.must(t, "DELETE", historyMap, "")
	s.must(t, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "")
	awaitGone(t, dynamicClient(t, s).Resource(definitionsGVR), "widgets.example.com")

	check := func() {
		t.Helper()
		s.expectCode(t, 200, `"x":"1"`, "GET", at(first, pastMap))
		s.expectCode(t, 200, `"x":"2"`, "GET", at(second, pastMap))
		s.expectCode(t, 404, "NotFound", "GET", "/at/-0s"+pastMap)
		s.expectCode(t, 200, `"size":7`, "GET", at(second, widgets))
		s.expectCode(t, 200, `"kind":"Table"`, "GET", at(second, widgets), "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		s.expectCode(t, 200, "widgets", "GET", at(second, "/apis/example.com/v1"))
		s.expectCode(t, 404, "", "GET", at(first, "/apis/example.com/v1"))
		index := s.expectCode(t, 200, `"`+at(second, "/openapi/v3/apis/example.com/v1"), "GET", at(second, "/openapi/v3"))
		var paths struct {
			Paths map[string]struct{ ServerRelativeURL string }
		}
		if err := json.Unmarshal([]byte(index), &paths); err != nil {
			t.Fatal(err)
		}
		s.expectCode(t, 200, "com.example.v1.Widget", "GET", paths.Paths["apis/example.com/v1"].ServerRelativeURL)
		if got := revisionOf(t, s.expectCode(t, 200, "", "GET", at(second, configMaps))); got != second {
			t.Errorf("the resourceVersion of a list is %s, want %s", got, second)
		}
	}
	check()
	s.end(t)
	s = start(t, config)
	check()
}

// TestPastRequests checks that requests that do not apply to the past are rejected, and checks the response
// headers.
func TestPastRequests(t *testing.T) {
	t.Parallel()
	s := start(t, withoutControllers(Config{}))
	now := revisionOf(t, s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"1"}}`))
	for _, method := range []string{"DELETE", "PUT", "POST", "PATCH"} {
		s.expectCode(t, 405, "the past cannot be changed", method, at(now, pastMap))
	}
	for _, path := range []string{"proxy", "log", "exec", "attach", "portforward"} {
		s.expectCode(t, 405, "", "GET", at(now, "/api/v1/namespaces/default/pods/a/"+path))
	}
	for moment, want := range map[string]int{
		"rv/": 400, "rv/x": 400, "rv/-1": 400, "rv/0": 400, "rv/99999999999999999999": 400, "rv/999999": 400, "x": 400, "-x": 400, "--1h": 400, "-99999d": 400,
		"2026-13-01T00:00:00Z": 400, "2020-01-01T00:00:00Z": 410, "-20d": 410, "-0s": 200, "-0d": 200, "2200-01-01T00:00:00%2B01:00": 200,
	} {
		s.expectCode(t, want, "", "GET", "/at/"+moment+pastMap)
	}
	for _, path := range []string{"", "/", "/healthz", "/metrics", "/mainstay/v1/snapshot", StatisticsPath, "/logs/"} {
		s.expectCode(t, 404, "", "GET", at(now, path))
	}
	s.expectCode(t, 404, "", "GET", "/at")
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/at/-0s"+pastMap, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.admin.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get(controlplane.RevisionHeader); got < now {
		t.Errorf("%s is %s, want at least %s", controlplane.RevisionHeader, got, now)
	}
	if changed, err := time.Parse(time.RFC3339, response.Header.Get(controlplane.TimeHeader)); err != nil || time.Since(changed) > time.Hour {
		t.Errorf("%s is %s, %v", controlplane.TimeHeader, changed, err)
	}
	if got := s.must(t, "GET", historyMap, ""); !strings.Contains(got, `"x":"1"`) {
		t.Errorf("the object after rejected writes: %s", got)
	}
}

// TestPastDisabled checks that a server without a history rejects requests for the past, instead of serving the
// present.
func TestPastDisabled(t *testing.T) {
	t.Parallel()
	config := withoutControllers(Config{})
	config.Storage.History.MaxAge = -1
	s := start(t, config)
	s.must(t, "POST", configMaps, `{"metadata":{"name":"a"}}`)
	s.expectCode(t, 400, "no history", "GET", "/at/-0s"+pastMap)
	s.expectCode(t, 405, "", "DELETE", "/at/-0s"+pastMap)
	s.must(t, "GET", historyMap, "")
}

// TestPastAuthorization checks that the current permissions apply to requests for the past, and that such
// requests additionally require the verb history.
func TestPastAuthorization(t *testing.T) {
	t.Parallel()
	config := withoutControllers(Config{})
	config.Authentication.TokenFile.File = tokens(t)
	s := start(t, config)
	s.must(t, "POST", configMaps, `{"metadata":{"name":"a"}}`)
	now := revisionOf(t, s.must(t, "GET", historyMap, ""))
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	role := func(name, verbs string) {
		s.must(t, "POST", roles, `{"metadata":{"name":"`+name+`"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":[`+verbs+`]}]}`)
		s.must(t, "POST", strings.Replace(roles, "roles", "rolebindings", 1), `{"metadata":{"name":"`+name+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"`+name+`"},"subjects":[{"kind":"User","name":"jane"}]}`)
	}
	expect := func(want string) {
		t.Helper()
		for _, path := range []string{pastMap, configMaps} {
			if got := withToken(t, s, "jane", at(now, path)); got != want {
				t.Errorf("GET %s: %s, want %s", path, got, want)
			}
		}
	}
	expect("403")
	role("reader", `"get","list"`)
	expect("403")
	role("historian", `"history"`)
	expect("200")
	if got := withToken(t, s, "jane", at(now, "/api/v1/configmaps")); got != "403" {
		t.Errorf("list in all namespaces: %s", got)
	}
	s.must(t, "DELETE", roles+"/reader", "")
	expect("403") // although the role existed at the revision
}

// TestPastWatch checks that a watch at an earlier revision replays the events up to this revision.
func TestPastWatch(t *testing.T) {
	t.Parallel()
	s := start(t, withoutControllers(Config{}))
	created := revisionOf(t, s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"1"}}`))
	s.must(t, "PUT", historyMap, `{"metadata":{"name":"a"},"data":{"x":"2"}}`)
	s.must(t, "DELETE", historyMap, "")
	last := revisionOf(t, s.must(t, "GET", configMaps, ""))
	s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"3"}}`)
	events := json.NewDecoder(s.stream(t, at(last, configMaps)+"?watch=1&resourceVersion="+created))
	for _, want := range []string{"MODIFIED 2", "DELETED 2"} {
		var event struct {
			Type   string
			Object struct{ Data map[string]string }
		}
		if err := events.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(event.Type, " ", event.Object.Data["x"]); got != want {
			t.Errorf("event %s, want %s", got, want)
		}
	}
}

// TestPastEncrypted checks that earlier states can be read with and without encryption at rest.
func TestPastEncrypted(t *testing.T) {
	t.Parallel()
	plainAndEncrypted(t, func(t *testing.T, config Config) {
		config.Storage.History.MaxAge = time.Hour
		s := start(t, withoutControllers(config))
		first := revisionOf(t, s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"1"}}`))
		s.must(t, "PUT", historyMap, `{"metadata":{"name":"a"},"data":{"x":"2"}}`)
		s.expectCode(t, 200, `"x":"1"`, "GET", at(first, pastMap))
	})
}

// TestPastOverEtcd checks that the local history also works with etcd.
func TestPastOverEtcd(t *testing.T) {
	t.Parallel()
	config := withoutControllers(etcdConfig(etcdtest.Start(t, etcdtest.Options{})))
	config.Storage.History.MaxAge = time.Hour
	s := start(t, config)
	first := revisionOf(t, s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"1"}}`))
	s.must(t, "PUT", historyMap, `{"metadata":{"name":"a"},"data":{"x":"2"}}`)
	s.expectCode(t, 200, `"x":"1"`, "GET", at(first, pastMap))
	// The first request waits until the history contains both changes.
	const changes = "/apis/history.mainstay.dev/v1/namespaces/default/changes?fieldSelector=object.name=a,user=kubernetes-admin,operation="
	s.expectCode(t, 200, `"verb":"create"`, "GET", changes+"Created")
	s.expectCode(t, 200, `"verb":"update"`, "GET", changes+"Updated")
}

// TestPastInformer runs a client-go informer on an earlier state.
func TestPastInformer(t *testing.T) {
	t.Parallel()
	s := start(t, withoutControllers(Config{}))
	s.must(t, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"x":"1"}}`)
	then := revisionOf(t, s.must(t, "POST", configMaps, `{"metadata":{"name":"b"}}`))
	s.must(t, "DELETE", historyMap, "")
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Host += "/at/rv/" + then
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps()
	lister := informer.Lister()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	factory.Start(ctx.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatal("the informer is not synced")
		}
	}
	if m, err := lister.ConfigMaps("default").Get("a"); err != nil || m.Data["x"] != "1" {
		t.Errorf("the object: %+v, %v", m, err)
	}
	cancel()
	factory.Shutdown()
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a write: %v", err)
	}
}
