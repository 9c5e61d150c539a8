package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controllers/clusterroles"
)

// visiblePlane is a control plane with --list-visible.
type visiblePlane struct {
	testing.TB
	*ControlPlane
	url string
}

func newVisiblePlane(t testing.TB, cached bool) *visiblePlane {
	t.Helper()
	env := newEnv(t)
	env.Identity.Authenticator = byHeader{}
	if !cached {
		env.Storage.Feed = nil
	}
	c, err := New(env, "/visible", Options{Authorization: AuthorizationOptions{ListVisible: true}, Controllers: ControllerOptions{Names: []string{clusterroles.Name}}}) // other controllers would write concurrently
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return &visiblePlane{t, c, server.URL}
}

// do sends a request as a user and returns the code and the body of the response.
func (p *visiblePlane) do(user, method, path, body string, header ...string) (int, []byte) {
	p.Helper()
	r := httptest.NewRequestWithContext(p.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	r.Header.Set("User", user)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// must is like do, as the user admin. It fails the test unless the request succeeds.
func (p *visiblePlane) must(method, path, body string) []byte {
	p.Helper()
	code, answer := p.do("admin", method, path, body)
	if code >= 300 {
		p.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

func (p *visiblePlane) namespace(name string) {
	p.must("POST", "/api/v1/namespaces", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name))
}

func (p *visiblePlane) configMap(namespace, name, color string) {
	p.must("POST", "/api/v1/namespaces/"+namespace+"/configmaps",
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"color":%q}}}`, name, color))
}

const mayReadMaps = `{"apiGroups":[""],"resources":["configmaps"],"verbs":["list","watch"]}`

func (p *visiblePlane) grant(namespace, user string) {
	base := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
	p.must("POST", base+"/roles", roleBody("reader", mayReadMaps))
	p.must("POST", base+"/rolebindings", bindingBody(user, "Role", "reader", user))
}

// listed contains the tested fields of a list or a table.
type listed struct {
	metav1.ListMeta `json:"metadata"`
	Items           []metav1.PartialObjectMetadata `json:"items"`
	Rows            []json.RawMessage              `json:"rows"`
}

func (l *listed) names() []string {
	names := []string{}
	for i := range l.Items {
		names = append(names, l.Items[i].Namespace+"/"+l.Items[i].Name+"@"+l.Items[i].ResourceVersion)
	}
	return names
}

func (p *visiblePlane) list(user, query string, header ...string) *listed {
	p.Helper()
	code, body := p.do(user, "GET", "/api/v1/configmaps?"+query, "", header...)
	if code != 200 {
		p.Fatalf("list as %s with %s: %d %s", user, query, code, body)
	}
	var l listed
	if err := json.Unmarshal(body, &l); err != nil {
		p.Fatal(err)
	}
	return &l
}

// TestListVisible checks that a list over all namespaces contains the objects of the namespaces that the user
// may list, in all representations and with pagination, and that users without such namespaces receive 403.
func TestListVisible(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]bool{"cached": true, "uncached": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newVisiblePlane(t, cached)
			for _, namespace := range []string{"a", "b", "c", "b-d"} {
				p.namespace(namespace)
				p.configMap(namespace, "x", "red")
				p.configMap(namespace, "y", "blue")
			}
			p.grant("b", "jane")
			p.grant("b-d", "jane")
			// Permissions for individual names or other verbs have no effect.
			p.must("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles", roleBody("one", `{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["x"],"verbs":["*"]}`))
			p.must("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings", bindingBody("one", "Role", "one", "jane"))

			want := strings.Join([]string{"b-d/x", "b-d/y", "b/x", "b/y"}, " ")
			check := func(l *listed, want string) {
				t.Helper()
				var got []string
				for _, name := range l.names() {
					name, _, _ := strings.Cut(name, "@")
					got = append(got, name)
				}
				if strings.Join(got, " ") != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			check(p.list("jane", ""), want)
			check(p.list("jane", "resourceVersion=0"), want)
			check(p.list("jane", "labelSelector=color%3Dred"), "b-d/x b/x")
			check(p.list("jane", "fieldSelector=metadata.name%3Dy"), "b-d/y b/y")
			check(p.list("jane", "fieldSelector=metadata.namespace%3Db-d"), "b-d/x b-d/y")
			check(p.list("jane", "fieldSelector=metadata.namespace%3Da"), "")
			if table := p.list("jane", "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1"); len(table.Rows) != 4 {
				t.Errorf("the table has %d rows, want 4", len(table.Rows))
			}
			check(p.list("jane", "", "Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), want)
			if code, body := p.do("jane", "GET", "/api/v1/configmaps", "", "Accept", "application/vnd.kubernetes.protobuf"); code != 200 || strings.Count(string(body), "red")+strings.Count(string(body), "blue") != 4 {
				t.Errorf("protobuf: %d %q; want 4 objects", code, body)
			}

			page := p.list("jane", "limit=3")
			check(page, "b-d/x b-d/y b/x")
			if remaining := page.RemainingItemCount; cached && (remaining == nil || *remaining != 1) || !cached && remaining != nil {
				t.Errorf("a page of %+v, the feed runs: %t; want a remainingItemCount of 1 from a cache, otherwise none", page.ListMeta, cached && p.env.Storage.Feed.Running())
			}
			check(p.list("jane", "limit=3&continue="+page.Continue), "b/y")

			for _, path := range []string{"/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces/a/configmaps", "/api/v1/configmaps/x", "/apis/apps/v1/deployments"} {
				if code, _ := p.do("jane", "GET", path, ""); code != 403 {
					t.Errorf("GET %s: %d, want 403", path, code)
				}
			}
			if code, body := p.do("joe", "GET", "/api/v1/configmaps", ""); code != 403 || !strings.Contains(string(body), "at the cluster scope") {
				t.Errorf("list by a user without permissions: %d %s", code, body)
			}
			if all := p.list("admin", ""); len(all.Items) < 8 {
				t.Errorf("the administrator sees %d objects, want at least 8", len(all.Items))
			}
		})
	}
}

// TestListVisibleOff checks that without --list-visible, a user who can list only some namespaces receives 403.
func TestListVisibleOff(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	as(t, c, "admin", "POST", roles, roleBody("reader", mayReadPods), 201, "")
	as(t, c, "admin", "POST", bindings, bindingBody("jane", "Role", "reader", "jane"), 201, "")
	as(t, c, "jane", "GET", "/api/v1/pods", "", 403, "at the cluster scope")
}

// event is an event of a watch.
type event struct {
	Type   string
	Object struct {
		metav1.PartialObjectMetadata
		Code int32
	}
}

// watch opens a watch over all namespaces and calls f with its events until f returns false or the
// watch ends. It returns the status code.
func (p *visiblePlane) watch(ctx context.Context, user string, query url.Values, f func(event) bool) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query.Set("watch", "1")
	r, err := http.NewRequestWithContext(ctx, "GET", p.url+"/api/v1/configmaps?"+query.Encode(), nil)
	if err != nil {
		p.Error(err)
		return 0
	}
	r.Header.Set("User", user)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0 // the context has ended
	}
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		return answer.StatusCode
	}
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if err != io.EOF && ctx.Err() == nil {
				p.Errorf("the watch broke: %v", err)
			}
			return 200
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			p.Errorf("decode the event %s: %v", line, err)
			return 200
		}
		if !f(e) {
			return 200
		}
	}
}

// TestWatchVisible checks that the objects of a namespace are sent as ADDED when the user gains the
// permission, and as DELETED when the user loses it, each time with a bookmark from which a watch can resume.
func TestWatchVisible(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]bool{"cached": true, "uncached": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newVisiblePlane(t, cached)
			for _, namespace := range []string{"a", "b"} {
				p.namespace(namespace)
				p.configMap(namespace, "x", "red")
				p.configMap(namespace, "y", "blue")
			}
			p.grant("a", "jane")
			const binding = "/apis/rbac.authorization.k8s.io/v1/namespaces/b/rolebindings/jane"
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			steps := []struct {
				want string
				then func()
			}{
				{"BOOKMARK", func() { p.grant("b", "jane") }}, // the end of the initial events
				{"ADDED b/x", nil},
				{"ADDED b/y", nil},
				{"BOOKMARK", func() { p.configMap("b", "z", "red") }},
				{"ADDED b/z", func() { p.must("DELETE", binding, "") }},
				{"DELETED b/x", nil},
				{"DELETED b/y", nil},
				{"DELETED b/z", nil},
				{"BOOKMARK", func() { p.configMap("b", "hidden", "red"); p.configMap("a", "z", "red") }},
				{"ADDED a/z", nil},
			}
			at, bookmark := 0, ""
			initial := []string{"ADDED a/x", "ADDED a/y"}
			query := url.Values{"allowWatchBookmarks": {"true"}, "sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"}}
			code := p.watch(ctx, "jane", query, func(e event) bool {
				got := e.Type
				if e.Type == "BOOKMARK" {
					bookmark = e.Object.ResourceVersion
				} else {
					got += " " + e.Object.Namespace + "/" + e.Object.Name
				}
				if len(initial) > 0 {
					if got != initial[0] {
						t.Fatalf("got %s, want %s", got, initial[0])
					}
					initial = initial[1:]
					return true
				}
				if got != steps[at].want {
					t.Errorf("step %d: got %s, want %s", at, got, steps[at].want)
					return false
				}
				if then := steps[at].then; then != nil {
					then()
				}
				at++
				return at < len(steps)
			})
			if code != 200 || at != len(steps) {
				t.Fatalf("%d after %d steps", code, at)
			}
			p.watch(ctx, "jane", url.Values{"resourceVersion": {bookmark}}, func(e event) bool {
				if got := e.Type + " " + e.Object.Namespace + "/" + e.Object.Name; got != "ADDED a/z" {
					t.Errorf("resumed: %s", got)
				}
				return false
			})
			p.watch(ctx, "jane", url.Values{"resourceVersion": {"1"}}, func(e event) bool {
				if e.Type != "ERROR" || e.Object.Code != 410 {
					t.Errorf("watch from a revision before the permissions changed: %s %d, want 410", e.Type, e.Object.Code)
				}
				return false
			})
		})
	}
}

// follower is a client that lists and watches like an informer, and detects redundant events and events for
// unknown objects.
type follower struct {
	*visiblePlane
	user     string
	selector string
	random   *rand.Rand

	mu    sync.Mutex
	known map[string]string // revisions by name
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		at := f.list(ctx)
		for at != "" && ctx.Err() == nil {
			at = f.watch(ctx, at)
		}
	}
}

// list lists all namespaces and returns the revision, or "" if the user has no permission.
func (f *follower) list(ctx context.Context) string {
	known, more := map[string]string{}, ""
	for {
		query := url.Values{"limit": {fmt.Sprint(1 + f.random.IntN(20))}, "labelSelector": {f.selector}, "continue": {more}}
		code, body := f.do(f.user, "GET", "/api/v1/configmaps?"+query.Encode(), "")
		var l listed
		if code == 200 {
			if err := json.Unmarshal(body, &l); err != nil {
				f.Error(err)
			}
		} else if code != 403 {
			f.Errorf("list: %d %s", code, body)
			return ""
		}
		for i := range l.Items {
			known[l.Items[i].Namespace+"/"+l.Items[i].Name] = l.Items[i].ResourceVersion
		}
		if more = l.Continue; more != "" {
			continue
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.known = known
		return l.ResourceVersion
	}
}

// watch watches from a revision, stops after a random number of events, and returns the revision to resume
// from, or "" to list again.
func (f *follower) watch(ctx context.Context, at string) string {
	query := url.Values{"resourceVersion": {at}, "labelSelector": {f.selector}, "allowWatchBookmarks": {fmt.Sprint(f.random.IntN(2) == 0)}, "timeoutSeconds": {"1"}}
	remaining := 1 + f.random.IntN(40)
	code := f.visiblePlane.watch(ctx, f.user, query, func(e event) bool {
		if e.Type == "ERROR" {
			if e.Object.Code != 410 {
				f.Errorf("watch: %d", e.Object.Code)
			}
			at = ""
			return false
		}
		at = e.Object.ResourceVersion
		f.take(e)
		remaining--
		return remaining > 0
	})
	if code == 403 {
		return ""
	}
	return at
}

func (f *follower) take(e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := e.Object.Namespace + "/" + e.Object.Name
	was, known := f.known[name]
	switch {
	case e.Type == "BOOKMARK":
		return
	case known == (e.Type == "ADDED"):
		f.Errorf("%s %s at %s, which was known: %t at %s", e.Type, name, e.Object.ResourceVersion, known, was)
	}
	if e.Type == "DELETED" {
		delete(f.known, name)
	} else {
		f.known[name] = e.Object.ResourceVersion
	}
}

// rights is the model of jane's permissions.
type rights struct {
	bound, granted map[string]bool // namespaces with a binding, and with rules in the role
	everywhere     bool
}

func (r *rights) sees(namespace string) bool {
	return r.everywhere || r.bound[namespace] && r.granted[namespace]
}

// TestVisibleModel changes objects, roles and bindings at random. A list over all namespaces must
// equal the lists of the permitted namespaces at the same revision, and clients whose watches are
// interrupted at random events must have the same objects in the end.
func TestVisibleModel(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]bool{"cached": true, "uncached": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testVisibleModel(t, newVisiblePlane(t, cached), rand.New(rand.NewPCG(1, uint64(len(name)))))
		})
	}
}

func testVisibleModel(t *testing.T, p *visiblePlane, random *rand.Rand) {
	r := &rights{bound: map[string]bool{}, granted: map[string]bool{}}
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	var namespaces []string
	for _, namespace := range []string{"n", "n-0", "n0", "n0-a", "n1", "m"} { // the order of their keys differs from the order of their names
		namespaces = append(namespaces, namespace)
		p.namespace(namespace)
		p.must("POST", rbac+"/namespaces/"+namespace+"/roles", roleBody("reader", mayReadMaps))
		r.granted[namespace] = true
	}
	p.must("POST", rbac+"/clusterroles", strings.Replace(roleBody("all-readers", mayReadMaps), `"Role"`, `"ClusterRole"`, 1))

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var followers []*follower
	for n, selector := range []string{"", "", "color=red", "color=red"} {
		f := &follower{visiblePlane: p, user: "jane", selector: selector, random: rand.New(rand.NewPCG(2, uint64(n)))}
		followers = append(followers, f)
		running.Go(func() { f.run(ctx) })
	}
	defer running.Wait()
	defer stop()

	objects := map[string]bool{}
	steps := 250
	if testing.Short() {
		steps = 100
	}
	for range steps {
		step(p, r, namespaces, objects, random)
		compare(p, r)
	}
	deadline := time.Now().Add(time.Minute)
	for _, f := range followers {
		for !f.agrees(r) {
			if time.Now().After(deadline) {
				t.Fatalf("a client with the selector %q knows %v", f.selector, f.known)
			}
			// The next list or watch might need a newer revision than the last one, so write an object.
			p.must("PATCH", "/api/v1/namespaces/"+namespaces[0], fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, random.IntN(1000)))
		}
	}
}

// step makes a random change.
func step(p *visiblePlane, r *rights, namespaces []string, objects map[string]bool, random *rand.Rand) {
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	namespace := namespaces[random.IntN(len(namespaces))]
	own := rbac + "/namespaces/" + namespace
	switch random.IntN(10) {
	case 0, 1: // add or remove a binding
		if r.bound[namespace] = !r.bound[namespace]; r.bound[namespace] {
			p.must("POST", own+"/rolebindings", bindingBody("jane", "Role", "reader", "jane"))
		} else {
			p.must("DELETE", own+"/rolebindings/jane", "")
		}
	case 2: // the rules of a role
		rules := ""
		if r.granted[namespace] = !r.granted[namespace]; r.granted[namespace] {
			rules = mayReadMaps
		}
		p.must("PUT", own+"/roles/reader", roleBody("reader", rules))
	case 3: // all namespaces
		if random.IntN(3) > 0 {
			return
		}
		if r.everywhere = !r.everywhere; r.everywhere {
			p.must("POST", rbac+"/clusterrolebindings", strings.Replace(bindingBody("jane", "ClusterRole", "all-readers", "jane"), `"RoleBinding"`, `"ClusterRoleBinding"`, 1))
		} else {
			p.must("DELETE", rbac+"/clusterrolebindings/jane", "")
		}
	default: // an object
		name := fmt.Sprintf("o%d", random.IntN(6))
		path := "/api/v1/namespaces/" + namespace + "/configmaps"
		color := []string{"red", "blue"}[random.IntN(2)]
		switch {
		case !objects[namespace+name]:
			p.configMap(namespace, name, color)
			objects[namespace+name] = true
		case random.IntN(2) == 0:
			p.must("DELETE", path+"/"+name, "")
			objects[namespace+name] = false
		default:
			p.must("PATCH", path+"/"+name, fmt.Sprintf(`{"metadata":{"labels":{"color":%q}},"data":{"x":"%d"}}`, color, random.IntN(1000)))
		}
	}
}

// compare compares the list over all namespaces with the lists of the individual namespaces.
func compare(p *visiblePlane, r *rights) {
	p.Helper()
	code, body := p.do("jane", "GET", "/api/v1/configmaps", "")
	if code == 403 {
		if r.everywhere || slices.ContainsFunc(slices.Collect(maps.Keys(r.bound)), r.sees) {
			p.Errorf("403 although the user may list objects in some namespaces")
		}
		return
	}
	var got listed
	if err := json.Unmarshal(body, &got); err != nil {
		p.Fatal(err)
	}
	paged, more := []string{}, ""
	for page := 0; page == 0 || more != ""; page++ {
		part := p.list("jane", "limit=2&continue="+more)
		paged, more = append(paged, part.names()...), part.Continue
	}
	if !slices.Equal(got.names(), paged) {
		p.Fatalf("got %v, and in pages %v", got.names(), paged)
	}
	all := p.visibleTo(r, got.ResourceVersion)
	if !slices.Equal(got.names(), all) {
		p.Fatalf("at %s: got %v, want %v", got.ResourceVersion, got.names(), all)
	}
}

// visibleTo returns the names of the objects that jane may see at a revision, according to the model. It lists
// the objects as admin.
func (p *visiblePlane) visibleTo(r *rights, revision string) []string {
	all := p.list("admin", "resourceVersionMatch=Exact&resourceVersion="+revision)
	return slices.DeleteFunc(all.names(), func(name string) bool {
		namespace, _, _ := strings.Cut(name, "/")
		return !r.sees(namespace)
	})
}

// agrees reports whether the follower knows exactly the visible objects.
func (f *follower) agrees(r *rights) bool {
	want := map[string]string{}
	for _, item := range f.visiblePlane.list("admin", "labelSelector="+url.QueryEscape(f.selector)).Items {
		if r.sees(item.Namespace) {
			want[item.Namespace+"/"+item.Name] = item.ResourceVersion
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Equal(want, f.known)
}

// BenchmarkListVisible compares a list of the 10,000 objects in 10 visible namespaces, out of 20, with an
// unrestricted list of 10,000 objects.
func BenchmarkListVisible(b *testing.B) {
	for name, asked := range map[string]struct {
		user       string
		namespaces int
	}{"visible": {"jane", 20}, "plain": {"admin", 10}} {
		b.Run(name, func(b *testing.B) {
			p := newVisiblePlane(b, true)
			for n := range asked.namespaces {
				namespace := fmt.Sprintf("n%02d", n)
				p.namespace(namespace)
				for o := range 1000 {
					p.configMap(namespace, fmt.Sprintf("o%d", o), "red")
				}
				if n < 10 {
					p.grant(namespace, "jane")
				}
			}
			r := httptest.NewRequest("GET", "/api/v1/configmaps", nil)
			r.Header.Set("User", asked.user)
			b.ReportAllocs()
			for b.Loop() {
				w := &counted{header: http.Header{}}
				p.ServeHTTP(w, r)
				b.ReportMetric(float64(w.bytes), "bytes")
			}
		})
	}
}

// counted is a response writer that counts the bytes of the body.
type counted struct {
	header http.Header
	bytes  int
}

func (c *counted) Header() http.Header { return c.header }
func (c *counted) WriteHeader(int)     {}
func (c *counted) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return len(b), nil
}
