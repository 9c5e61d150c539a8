package controlplane

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
)

// byHeaders authenticates requests as the user and groups in the headers User and Group.
type byHeaders struct{}

func (byHeaders) Authenticate(r *http.Request) (*request.Authentication, error) {
	groups := append([]string{request.GroupAuthenticated}, r.Header["Group"]...)
	return &request.Authentication{User: &request.User{Name: r.Header.Get("User"), Groups: groups}}, nil
}

// newFlowPlane returns a control plane that authorizes all requests. An authorized request with the header
// Block sends a value to entered, and then waits until release is closed.
func newFlowPlane(t *testing.T, options Options) (c *ControlPlane, entered chan struct{}, release chan struct{}) {
	t.Helper()
	env := newEnv(t)
	env.Identity.Authenticator = byHeaders{}
	entered, release = make(chan struct{}, 10_000), make(chan struct{})
	options.Authorization.Modes = []string{authz.TypeAlwaysAllow}
	options.Filter = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Block") != "" {
				entered <- struct{}{}
				<-release
			}
			next.ServeHTTP(w, r)
		})
	}
	c, err := New(env, "/flow", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, entered, release
}

// do sends a request and returns the response. headers contains alternating names and values.
func do(t *testing.T, c *ControlPlane, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

const (
	schemaUID = "X-Kubernetes-Pf-Flowschema-Uid"
	levelUID  = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// uidAt returns the UID of the object at a path.
func uidAt(t *testing.T, c *ControlPlane, path string) string {
	t.Helper()
	_, rest, _ := strings.Cut(do(t, c, "GET", path, "", "User", "admin", "Group", request.GroupMasters).Body.String(), `"uid":"`)
	uid, _, _ := strings.Cut(rest, `"`)
	if uid == "" {
		t.Fatalf("%s has no UID", path)
	}
	return uid
}

// TestFlowControlInEffect checks that a write of a schema or level has taken effect by the time it returns.
func TestFlowControlInEffect(t *testing.T) {
	t.Parallel()
	c, _, _ := newFlowPlane(t, Options{})
	const janes = `{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"janes"},"spec":{"matchingPrecedence":10,
		"priorityLevelConfiguration":{"name":%q},"rules":[{"subjects":[{"kind":"User","user":{"name":"jane"}}],
		"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["pods"],"clusterScope":true,"namespaces":["*"]}]}]}}`
	write := func(method, path, body string, code int) {
		t.Helper()
		if w := do(t, c, method, path, body, "User", "admin", "Group", request.GroupMasters); w.Code != code {
			t.Fatalf("%s %s: %d %s, want code %d", method, path, w.Code, w.Body, code)
		}
	}
	classified := func(when, path, schema, level string) {
		t.Helper()
		w := do(t, c, "GET", path, "", "User", "jane")
		if got, want := w.Header().Get(schemaUID), uidAt(t, c, flowSchemasPath+"/"+schema); got != want {
			t.Errorf("%s: of schema %s, want %s", when, got, want)
		}
		if got, want := w.Header().Get(levelUID), uidAt(t, c, priorityLevelsPath+"/"+level); got != want {
			t.Errorf("%s: of level %s, want %s", when, got, want)
		}
	}
	for round := range 3 {
		classified("at first", "/api/v1/pods", "global-default", "global-default")
		write("POST", flowSchemasPath, fmt.Sprintf(janes, "own"), 201)
		classified("with a schema without level", "/api/v1/pods", "global-default", "global-default")
		write("POST", priorityLevelsPath, priorityLevelBody("own"), 201)
		classified("with both", "/api/v1/pods", "janes", "own")
		classified("of another resource", "/api/v1/nodes", "global-default", "global-default")
		write("PATCH", flowSchemasPath+"/janes", `{"spec":{"priorityLevelConfiguration":{"name":"workload-high"}}}`, 200)
		classified("moved", "/api/v1/pods", "janes", "workload-high")
		write("DELETE", priorityLevelsPath+"/own", "", 200)
		write("DELETE", flowSchemasPath+"/janes", "", 200)
		classified("deleted", "/api/v1/pods", "global-default", "global-default")
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if w := do(t, c, "GET", "/readyz", "", "User", "system:anonymous", "Group", request.GroupUnauthenticated); w.Header().Get(schemaUID) != uidAt(t, c, flowSchemasPath+"/probes") {
		t.Errorf("a probe has the headers %v", w.Header())
	}
}

// TestNotStarvedByLists checks that probes, leader election, nodes and administrators are served immediately
// while lists use all seats and queues; additional lists are rejected.
func TestNotStarvedByLists(t *testing.T) {
	t.Parallel()
	c, entered, release := newFlowPlane(t, Options{Requests: RequestOptions{MaxInFlight: 20, MaxMutatingInFlight: 10}})
	var lists sync.WaitGroup
	codes := make(chan int, 10_000)
	list := func(user string) {
		lists.Go(func() {
			codes <- do(t, c, "GET", "/api/v1/pods", "", "User", user, "Block", "yes").Code
		})
	}
	// One user can queue 6 × 50 requests, which is the hand size times the queue length.
	const sent = 400
	for range sent {
		list("hungry")
	}
	<-entered
	for refused := 0; refused < sent/5; refused++ {
		select {
		case code := <-codes:
			if code != http.StatusTooManyRequests {
				t.Fatalf("a list returned %d", code)
			}
		case <-time.After(time.Minute):
			t.Fatalf("only %d lists were rejected", refused)
		}
	}
	const leases, nodes = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "/api/v1/nodes"
	for _, tt := range []struct {
		method, path, body, user, group string
		code                            int
	}{
		{"GET", "/readyz", "", "system:anonymous", request.GroupUnauthenticated, 200},
		{"GET", "/livez", "", "kubelet", "", 200},
		{"POST", leases, `{"metadata":{"name":"kube-controller-manager"}}`, "system:kube-controller-manager", "", 201},
		{"PUT", leases + "/kube-scheduler", `{"metadata":{"name":"kube-scheduler"},"spec":{"holderIdentity":"me"}}`, "system:kube-scheduler", "", 201},
		{"POST", nodes, `{"metadata":{"name":"n"}}`, "system:node:n", request.GroupNodes, 201},
		{"PATCH", nodes + "/n/status", `{"status":{"phase":"Running"}}`, "system:node:n", request.GroupNodes, 200},
		{"GET", "/api/v1/pods", "", "admin", request.GroupMasters, 200},
		{"GET", "/api/v1/pods", "", "system:kube-scheduler", "", 200},
		// Another user of the same level is not tested, because it would have to wait until one of the seats is
		// free.
		{"GET", "/debug/api_priority_and_fairness/dump_requests", "", "admin", request.GroupMasters, 200},
	} {
		if w := do(t, c, tt.method, tt.path, tt.body, "User", tt.user, "Group", tt.group); w.Code != tt.code {
			t.Errorf("%s %s of %s: %d %s", tt.method, tt.path, tt.user, w.Code, w.Body)
		}
	}
	close(release)
	lists.Wait()
	close(codes)
	for code := range codes {
		if code != http.StatusOK && code != http.StatusTooManyRequests {
			t.Errorf("a list returned %d", code)
		}
	}
	dump := do(t, c, "GET", "/debug/api_priority_and_fairness/dump_priority_levels", "", "User", "admin", "Group", request.GroupMasters).Body.String()
	if !strings.Contains(dump, "global-default,    0,            true,   false,       0,               0,") {
		t.Errorf("remaining requests:\n%s", dump)
	}
}

// TestWithoutFlowControl checks the limits for concurrent reads and writes if priority and fairness is
// disabled.
func TestWithoutFlowControl(t *testing.T) {
	t.Parallel()
	c, entered, release := newFlowPlane(t, Options{Requests: RequestOptions{DisablePriorityAndFairness: true, MaxInFlight: 1, MaxMutatingInFlight: 1}})
	var list sync.WaitGroup
	list.Go(func() { do(t, c, "GET", "/api/v1/pods", "", "User", "jane", "Block", "yes") })
	<-entered
	w := do(t, c, "GET", "/api/v1/pods", "", "User", "jane")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || w.Header().Get(levelUID) != "" {
		t.Errorf("a second list: %d %v", w.Code, w.Header())
	}
	if w := do(t, c, "POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`, "User", "jane"); w.Code != http.StatusCreated {
		t.Errorf("a write: %d %s", w.Code, w.Body)
	}
	if w := do(t, c, "GET", "/debug/api_priority_and_fairness/dump_queues", "", "User", "admin", "Group", request.GroupMasters); w.Code != http.StatusNotFound {
		t.Errorf("a dump: %d", w.Code)
	}
	close(release)
	list.Wait()
}

// TestRetiredFlowSchemas checks that objects which were declared by an older version are deleted, and that
// objects which administrators have created or changed are kept.
func TestRetiredFlowSchemas(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Identity.Authenticator = byHeader{}
	c := newPlane(t, env, "/rbac")
	body := func(name, automatic string) string {
		return fmt.Sprintf(`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":%q,"annotations":{"apf.kubernetes.io/autoupdate-spec":%q}},
			"spec":{"priorityLevelConfiguration":{"name":"system"}}}`, name, automatic)
	}
	as(t, c, "admin", "POST", flowSchemasPath, body("retired", "true"), 201, "")
	as(t, c, "admin", "POST", flowSchemasPath, body("taken-over", "false"), 201, "")
	as(t, c, "admin", "POST", flowSchemasPath, flowSchemaBody("own", "system"), 201, "")
	c.Close()
	c = newPlane(t, env, "/rbac") // a later start
	as(t, c, "admin", "GET", flowSchemasPath+"/retired", "", 404, "")
	for _, name := range []string{"taken-over", "own", "exempt", "global-default"} {
		as(t, c, "admin", "GET", flowSchemasPath+"/"+name, "", 200, "")
	}
}
