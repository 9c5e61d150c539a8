package route_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// res returns a resource without methods. text has the form "group/version name/subresource", in which the
// group and slash are omitted for the core group.
func res(text string) *rest.Resource {
	where, what, _ := strings.Cut(text, " ")
	gv, err := schema.ParseGroupVersion(where)
	if err != nil {
		panic(err)
	}
	name, subresource, _ := strings.Cut(what, "/")
	return &rest.Resource{GroupVersion: gv, Name: name, Subresource: subresource, Namespaced: name != "nodes" && name != "namespaces"}
}

func source(texts ...string) *route.Static {
	var all []*rest.Resource
	for _, text := range texts {
		all = append(all, res(text))
	}
	return route.NewStatic(all)
}

// drawn formats groups as text, with one entry per version.
func drawn(groups []rest.Group) []string {
	var out []string
	for _, g := range groups {
		for _, v := range g.Versions {
			line := g.Name + ": " + v.GroupVersion.String()
			for _, r := range v.Resources {
				line += " " + r.FullName()
			}
			out = append(out, line)
		}
	}
	return out
}

func TestStaticKeepsTheOrderOfGroups(t *testing.T) {
	t.Parallel()
	s := source("v1 pods/status", "v1 pods", "v1 nodes", "apps/v1 deployments", "autoscaling/v2 hpas", "autoscaling/v1 hpas", "apps/v1 daemonsets", "v1 pods/log")
	want := []string{": v1 nodes pods pods/log pods/status", "apps: apps/v1 daemonsets deployments", "autoscaling: autoscaling/v2 hpas", "autoscaling: autoscaling/v1 hpas"}
	if diff := cmp.Diff(want, drawn(s.Groups())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, found := range map[string]bool{"v1 pods": true, "v1 pods/log": true, "v1 pods/exec": false, "v2 pods": false, "apps/v1 pods": false, "v1 ": false} {
		want := res(text)
		if got := s.Find(want.GroupVersion, want.Name, want.Subresource); (got != nil) != found || found && got.FullName() != want.FullName() {
			t.Errorf("find %s: %v, want a resource: %t", text, got, found)
		}
	}
}

func TestCatalogOrder(t *testing.T) {
	t.Parallel()
	aggregated := source("metrics/v1 nodes", "apps/v1 deployments")
	builtin := source("v1 pods", "apps/v1 deployments", "apps/v1 daemonsets", "batch/v1 jobs")
	custom := source("batch/v2 jobs", "example.com/v1 widgets")
	c := route.NewCatalog(aggregated, builtin, custom)
	gv := schema.GroupVersion{Group: "apps", Version: "v1"}
	if c.Find(gv, "deployments", "") != aggregated.Find(gv, "deployments", "") {
		t.Error("deployments are not from the first source")
	}
	if c.Find(gv, "daemonsets", "") != builtin.Find(gv, "daemonsets", "") {
		t.Error("daemonsets are not from the second source")
	}
	if c.Find(gv, "none", "") != nil {
		t.Error("none is found")
	}
	want := []string{"metrics: metrics/v1 nodes", "apps: apps/v1 daemonsets deployments", ": v1 pods", "batch: batch/v1 jobs", "batch: batch/v2 jobs", "example.com: example.com/v1 widgets"}
	if diff := cmp.Diff(want, drawn(c.Groups())); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	for _, g := range c.Groups() { // Group returns the same groups
		one, found := c.Group(g.Name)
		if diff := cmp.Diff(drawn([]rest.Group{g}), drawn([]rest.Group{one})); diff != "" || !found {
			t.Errorf("group %q (-of all +alone):\n%s", g.Name, diff)
		}
		for _, v := range one.Versions {
			for _, r := range v.Resources {
				if r != c.Find(v.GroupVersion, r.Name, r.Subresource) {
					t.Errorf("%s %s is listed from a source other than the one in which it is found", v.GroupVersion, r.FullName())
				}
			}
		}
	}
	if _, found := c.Group("nope"); found {
		t.Error("a group that is in no source was found")
	}
	for group, has := range map[string]bool{"": true, "apps": true, "example.com": true, "nope": false} {
		if c.HasStaticGroup(group) != has {
			t.Errorf("HasStaticGroup(%q) = %v", group, !has)
		}
	}
}

// TestCatalogDoesNotModifySources checks that merging a group of several sources does not modify the
// sources, even with concurrent callers.
func TestCatalogDoesNotModifySources(t *testing.T) {
	t.Parallel()
	first, second := source("batch/v1 jobs"), source("batch/v1 cronjobs", "batch/v2 jobs", "batch/v3 jobs")
	c := route.NewCatalog(first, second)
	want := drawn(c.Groups())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if diff := cmp.Diff(want, drawn(c.Groups())); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := drawn(first.Groups()); len(got) != 1 {
		t.Errorf("the first source was changed to %q", got)
	}
}

// changing is a source whose generation is set by a test.
type changing struct {
	route.Source
	generation uint64
}

func (c *changing) Generation() uint64 { return c.generation }

func TestGeneration(t *testing.T) {
	t.Parallel()
	one, two := &changing{Source: source("v1 pods")}, &changing{Source: source("example.com/v1 widgets")}
	c := route.NewCatalog(one, source("apps/v1 deployments"), two)
	last := c.Generation()
	for _, s := range []*changing{one, two, two, one} {
		s.generation++
		if now := c.Generation(); now <= last {
			t.Errorf("generation %d after %d", now, last)
		} else {
			last = now
		}
	}
	// Only groups that cannot be removed are static.
	for group, static := range map[string]bool{"apps": true, "": false, "example.com": false} {
		if c.HasStaticGroup(group) != static {
			t.Errorf("HasStaticGroup(%q) = %v", group, !static)
		}
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	h := &route.Handler{
		Catalog:     route.NewCatalog(source("v1 pods", "v1 pods/status", "v1 nodes", "v1 namespaces", "v1 namespaces/status", "apps/v1 deployments")),
		API:         endpoints.New(endpoints.Config{}),
		NonResource: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "others") }),
	}
	const (
		others = "others"
		page   = "404 page not found\n"
		// Resources without methods respond with 405 if the lookup finds them.
		found   = "MethodNotAllowed"
		missing = "NotFound"
	)
	for path, want := range map[string]string{
		"/":                                           others,
		"/healthz":                                    others,
		"/api":                                        others,
		"/api/v1":                                     others,
		"/apis/apps":                                  others,
		"/apis/apps/v1":                               others,
		"/api/v1/pods":                                found,
		"/api/v1/namespaces/a/pods":                   found,
		"/api/v1/namespaces/a/pods/p":                 found,
		"/api/v1/namespaces/a/pods/p/status":          found,
		"/api/v1/namespaces/a/pods/p/nope":            missing,
		"/api/v1/pods/p":                              missing,
		"/api/v1/nodes":                               found,
		"/api/v1/nodes/n":                             found,
		"/api/v1/namespaces/a/nodes":                  missing,
		"/api/v1/namespaces/a/nodes/n":                missing,
		"/api/v1/namespaces":                          found,
		"/api/v1/namespaces/a":                        found,
		"/api/v1/namespaces/a/status":                 found,
		"/api/v1/nope":                                missing,
		"/api/v2/pods":                                missing,
		"/apis/apps/v1/namespaces/a/deployments":      found,
		"/apis/apps/v2/namespaces/a/deployments":      missing,
		"/apis/apps/v1/namespaces/a/nope":             missing,
		"/apis/nope.example.com/v1/namespaces/a/nope": page,
		"/apis/nope.example.com/v1/nope":              page,
		"/apis//v1/pods":                              page,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			info, err := request.Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(request.NewContext(r.Context(), &info, time.Now())))
			if got := w.Body.String(); got != want && !strings.Contains(got, `"reason":"`+want+`"`) {
				t.Errorf("%d %s; want %s", w.Code, got, want)
			}
		})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
	if w.Body.String() != others {
		t.Errorf("a request without an Info: %s", w.Body)
	}
}

func BenchmarkFind(b *testing.B) {
	c := route.NewCatalog(source("metrics/v1 nodes"), source("v1 pods", "v1 nodes", "apps/v1 deployments"))
	gv := schema.GroupVersion{Group: "apps", Version: "v1"}
	b.ReportAllocs()
	for b.Loop() {
		if c.Find(gv, "deployments", "") == nil {
			b.Fatal("not found")
		}
	}
}
