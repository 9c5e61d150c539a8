package controlplane

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestTokenReview checks that the review of an unknown token reports an error.
func TestTokenReview(t *testing.T) {
	t.Parallel()
	c := newPlane(t, newEnv(t), "/registry")
	code, answer := send(t, c, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"x"}}`)
	if code != http.StatusCreated || !strings.Contains(answer, `"status":{"user":{},"error":"invalid bearer token"}`) {
		t.Errorf("review an unknown token: %d %s", code, answer)
	}
}

// TestEquivalents checks that the event resources of both groups are equivalent, and that the served versions
// of a custom resource are equivalent.
func TestEquivalents(t *testing.T) {
	t.Parallel()
	c := newPlane(t, newEnv(t), "/registry")
	const versions = `[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object"}}},` +
		`{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},` +
		`{"name":"v3","served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]`
	if code, answer := send(t, c, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		`{"metadata":{"name":"gears.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gears","kind":"Gear"},"versions":`+versions+`}}`); code != http.StatusCreated {
		t.Fatalf("create the definition: %d %s", code, answer)
	}
	i := c.opened.Load()
	gears := schema.GroupVersion{Group: "example.com", Version: "v1"}
	for deadline := time.Now().Add(time.Minute); i.resources.catalog.Find(gears, "gears", "") == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the definition is not established")
		}
	}
	for asked, want := range map[string]string{
		"v1 events":                                   "v1 events.k8s.io/v1",
		"events.k8s.io/v1 events":                     "v1 events.k8s.io/v1",
		"v1 pods":                                     "v1",
		"v1 pods/status":                              "v1",
		"apps/v1 deployments/scale":                   "apps/v1",
		"example.com/v1 gears":                        "example.com/v1 example.com/v2",
		"example.com/v2 gears":                        "example.com/v1 example.com/v2",
		"example.com/v1 gears/status":                 "example.com/v1",
		"authentication.k8s.io/v1 selfsubjectreviews": "",
	} {
		version, name, _ := strings.Cut(asked, " ")
		name, subresource, _ := strings.Cut(name, "/")
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		resource := i.resources.catalog.Find(gv, name, subresource)
		if resource == nil {
			t.Errorf("%s is not served", asked)
			continue
		}
		got := map[string]bool{}
		for _, r := range i.resources.catalog.Equivalents(resource) {
			if r.Name != name || r.Subresource != subresource {
				t.Errorf("%s: equivalent resource %s has another name or subresource", asked, r.FullName())
			}
			got[r.GroupVersion.String()] = true
		}
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", asked, got, want)
		}
		for _, version := range strings.Fields(want) {
			if !got[version] {
				t.Errorf("%s: %v, want %s", asked, got, want)
			}
		}
	}
}
