package endpoints_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints"
)

const (
	noResource = "the server could not find the requested resource"
	noMethod   = "the server does not allow this method on the requested resource"
)

// TestShapes checks the error responses for requests without a matching resource, object or method.
// "page" is the plain-text response for unknown groups and paths, which is not a Status.
func TestShapes(t *testing.T) {
	t.Parallel()
	const widgets = "/apis/example.com/v1/namespaces/a/widgets"
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	for _, test := range []struct {
		line    string
		code    int
		message string
	}{
		{"GET /nope", 404, "page"},
		{"GET /apis/nope.example.com/v1/things", 404, "page"},
		{"GET /api/v1/nope", 404, noResource},
		{"GET /api/v2/configmaps", 404, noResource},
		{"GET " + inA + "nope", 404, noResource},
		{"GET " + inA + "nope/x", 404, noResource},
		{"GET /apis/example.com/v1/nope", 404, noResource},
		{"GET /apis/example.com/v2/widgets", 404, noResource},
		{"GET " + inA + "configmaps/nope", 404, `configmaps "nope" not found`},
		{"GET " + widgets + "/nope", 404, `widgets.example.com "nope" not found`},
		{"GET " + inA + "configmaps/a/nope", 404, noResource},
		{"GET " + inA + "configmaps/a/status", 404, noResource},
		{"GET " + inA + "pods/x/status", 404, `pods "x" not found`},
		{"GET " + inA + "pods/x/status/more", 404, noResource},
		{"GET /api/v1/configmaps/a", 404, noResource},
		{"GET " + inA + "nodes", 404, noResource},
		{"GET " + inA + "configmaps/", 200, ""},
		{"GET /api/v1/namespaces//configmaps", 200, ""},
		{"GET /api/v1//configmaps", 404, noResource},
		{"GET /api/v1/proxy/namespaces/a/pods/x", 404, noResource},
		{"GET " + inA + "configmaps/a%2Fb", 404, noResource},
		{"GET " + inA + "configmaps/..", 400, `Name parameter invalid: "..": may not be '..'`},
		{"GET " + inA + "configmaps/a%25b", 400, `Name parameter invalid: "a%b": may not contain '%'`},
		{"POST " + inA + "configmaps/a", 405, noMethod},
		{"PUT " + inA + "configmaps", 405, noMethod},
		{"PATCH " + inA + "configmaps", 405, noMethod},
		{"POST /api/v1/configmaps", 405, noMethod},
		{"DELETE /api/v1/configmaps", 405, noMethod},
		{"PUT /api/v1/configmaps", 405, noMethod},
		{"GET " + inA + "pods/x/eviction", 405, noMethod},
		{"DELETE " + inA + "pods/x/eviction", 405, noMethod},
		{"POST " + inA + "pods/x/status", 405, noMethod},
		{"DELETE " + inA + "pods/x/status", 405, noMethod},
		{"POST " + inA + "pods/x/log", 405, noMethod},
		{"OPTIONS " + inA + "configmaps", 405, noMethod},
		{"HEAD " + inA + "configmaps/a", 405, noMethod},
		{"HEAD " + inA + "configmaps/nope", 405, noMethod},
		{"HEAD " + inA + "configmaps", 405, noMethod},
		{"TRACE " + inA + "configmaps", 405, noMethod},
		{"FOO " + inA + "configmaps", 405, noMethod},
		{"POST " + inA + "pods/x/eviction", 404, `pods "x" not found`},
	} {
		t.Run(test.line, func(t *testing.T) {
			t.Parallel()
			body := ""
			if strings.HasPrefix(test.line, "POST") {
				body = "{}"
			}
			got := a.do(test.line, body)
			got.t = t
			if test.message == "page" {
				if got.Code != 404 || got.Body.String() != "404 page not found\n" {
					t.Errorf("response %d %s, want 404 page not found", got.Code, got.Body)
				}
				return
			}
			got.want(test.code, test.message)
			if test.message == noResource || test.message == noMethod {
				if !strings.Contains(got.Body.String(), `"details":{}`) {
					t.Errorf("no empty details in %s", got.Body)
				}
			}
		})
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	got := a.must("GET "+inA+"pods/x/log/and/more?follow=1", "")
	if got.Body.String() != `log of a/x, tail "/and/more"` {
		t.Errorf("got %s", got.Body)
	}
}

// TestNamedCreationWithoutObject checks that a create request for a subresource that returns no object
// results in a success Status.
func TestNamedCreationWithoutObject(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.must("POST "+inA+"pods", `{"metadata":{"name":"p"}}`)
	got := a.do("POST "+inA+"pods/p/eviction", `{"metadata":{"name":"p"}}`)
	if status := got.status(); got.Code != 201 || status.Status != metav1.StatusSuccess || status.Code != 201 {
		t.Errorf("evict the pod: %d %s, want code 201 with a Status of Success", got.Code, got.Body)
	}
	a.do("GET "+inA+"pods/p", "").want(404, "")
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	created := a.configMap("a", `"k":"1"`)
	body := func(meta, data string) string {
		return fmt.Sprintf(`{"metadata":{"name":"a"%s},"data":{%s}}`, meta, data)
	}
	got := a.must("PUT "+inA+"configmaps/a", body("", `"k":"2"`)).configMap()
	if got.Data["k"] != "2" || got.UID != created.UID || !got.CreationTimestamp.Equal(&created.CreationTimestamp) {
		t.Errorf("got %+v", got)
	}
	again := a.must("PUT "+inA+"configmaps/a", body("", `"k":"2"`)).configMap()
	if again.ResourceVersion != got.ResourceVersion {
		t.Errorf("a PUT without a change moved the revision from %s to %s", got.ResourceVersion, again.ResourceVersion)
	}
	for _, test := range []struct {
		name, path, body string
		code             int
		message          string
	}{
		{"old version", "a", body(`,"resourceVersion":"`+created.ResourceVersion+`"`, ""), 409, `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`},
		{"another uid", "a", body(`,"uid":"x"`, ""), 409, `Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, Key: /registry/configmaps/a/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: ` + string(created.UID)},
		{"another name", "b", body("", ""), 400, "the name of the object (a) does not match the name on the URL (b)"},
		{"no name", "b", "{}", 400, "the name of the object (b based on URL) was undeterminable: name must be provided"},
		{"another namespace", "a", body(`,"namespace":"b"`, ""), 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"not there", "b", `{"metadata":{"name":"b"}}`, 404, `configmaps "b" not found`},
		{"gone", "b", `{"metadata":{"name":"b","uid":"x"}}`, 404, `configmaps "b" not found`},
		{"deletionTimestamp", "a", body(`,"deletionTimestamp":"2020-01-01T00:00:00Z"`, ""), 422, `ConfigMap "a" is invalid: metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := a.do("PUT "+inA+"configmaps/"+test.path, test.body)
			got.t = t
			got.want(test.code, test.message)
		})
	}
	if now := a.must("GET "+inA+"configmaps/a", "").configMap(); now.ResourceVersion != got.ResourceVersion {
		t.Errorf("a rejected update was stored: %+v", now)
	}
}

// TestDryRun checks that a dry run has the same response as the actual write, and changes no object.
func TestDryRun(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	before := a.configMap("a", `"k":"1"`)
	for _, test := range []struct {
		line, body, contentType string
		code                    int
		data                    string
	}{
		{"POST " + inA + "configmaps?dryRun=All", `{"metadata":{"name":"b"},"data":{"k":"2"}}`, jsonType, 201, "2"},
		{"PUT " + inA + "configmaps/a?dryRun=All", `{"metadata":{"name":"a"},"data":{"k":"2"}}`, jsonType, 200, "2"},
		{"PATCH " + inA + "configmaps/a?dryRun=All", `{"data":{"k":"2"}}`, mergeT, 200, "2"},
		{"PATCH " + inA + "configmaps/a?dryRun=All", `{"data":{"k":"2"}}`, smpT, 200, "2"},
		{"PATCH " + inA + "configmaps/a?dryRun=All", `[{"op":"replace","path":"/data/k","value":"2"}]`, jsonT, 200, "2"},
		{"PATCH " + inA + "configmaps/a?dryRun=All&fieldManager=m&force=1", `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"2"}}`, applyT, 200, "2"},
		{"PATCH " + inA + "configmaps/b?dryRun=All&fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"2"}}`, applyT, 201, "2"},
		{"DELETE " + inA + "configmaps/a?dryRun=All", "", "", 200, ""},
		{"DELETE " + inA + "configmaps?dryRun=All", "", "", 200, ""},
		{"DELETE " + inA + "configmaps/a", `{"dryRun":["All"]}`, jsonType, 200, ""},
	} {
		got := a.do(test.line, test.body, "Content-Type", test.contentType)
		if got.Code != test.code {
			t.Errorf("%s: %d %s; want %d", test.line, got.Code, got.Body, test.code)
		}
		if test.data != "" && got.configMap().Data["k"] != test.data {
			t.Errorf("%s: response %s, want the data %s", test.line, got.Body, test.data)
		}
		if diff := cmp.Diff(before, a.must("GET "+inA+"configmaps/a", "").configMap()); diff != "" {
			t.Fatalf("%s was stored:\n%s", test.line, diff)
		}
		a.do("GET "+inA+"configmaps/b", "").want(404, "")
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	created := a.configMap("a", "")
	got := a.must("DELETE "+inA+"configmaps/a", "")
	want := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: "a", Kind: "configmaps", UID: created.UID}}
	if diff := cmp.Diff(want, got.status()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a.do("DELETE "+inA+"configmaps/a", "").want(404, `configmaps "a" not found`)

	// The deletion of a pod returns the pod, whether it is only marked for deletion or already deleted.
	a.must("POST "+inA+"pods", `{"metadata":{"name":"p"}}`)
	marked := a.must("DELETE "+inA+"pods/p", "").pod()
	if marked.DeletionTimestamp == nil || *marked.DeletionGracePeriodSeconds != 30 {
		t.Errorf("pod %+v", marked)
	}
	gone := a.must("DELETE "+inA+"pods/p?gracePeriodSeconds=0", "").pod()
	if *gone.DeletionGracePeriodSeconds != 0 {
		t.Errorf("pod %+v", gone)
	}
	// The response to a deletion that waits for finalizers is 202 if the client set
	// orphanDependents.
	a.must("POST "+inA+"configmaps", `{"metadata":{"name":"f","finalizers":["example.com/f"]}}`)
	if got := a.must("DELETE "+inA+"configmaps/f?orphanDependents=false", ""); got.Code != http.StatusAccepted {
		t.Errorf("code %d; want 202", got.Code)
	}
}

func TestDeleteCollection(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for i := range 5 {
		a.must("POST "+inA+"configmaps", fmt.Sprintf(`{"metadata":{"name":"c%d","labels":{"odd":"%v"}}}`, i, i%2 == 1))
	}
	for _, test := range []struct {
		query   string
		deleted int
		left    int
	}{
		{"?labelSelector=odd%3Dtrue&dryRun=All", 2, 5}, {"?labelSelector=odd%3Dtrue", 2, 3}, {"?fieldSelector=metadata.name%3Dnone", 0, 3}, {"", 3, 0},
	} {
		var deleted, left corev1.ConfigMapList
		a.must("DELETE "+inA+"configmaps"+test.query, "").object(&deleted)
		a.must("GET "+inA+"configmaps", "").object(&left)
		if deleted.Kind != "ConfigMapList" || len(deleted.Items) != test.deleted || len(left.Items) != test.left {
			t.Errorf("%s: %s with %d items, %d left; want %d and %d", test.query, deleted.Kind, len(deleted.Items), len(left.Items), test.deleted, test.left)
		}
	}
}

// nosy is an admission plugin that records its requests, changes objects, and rejects requests with the
// operation refuse.
type nosy struct {
	mu     sync.Mutex
	seen   []string
	refuse admission.Operation
}

func (n *nosy) Name() string { return "Nosy" }

func (n *nosy) Handles(admission.Operation) bool { return true }

func (n *nosy) Mutate(_ context.Context, a *admission.Attributes) error {
	n.note("mutate", a)
	if obj, ok := a.Object.(codec.Object); ok {
		obj.SetAnnotations(map[string]string{"nosy": "was here"})
	}
	return nil
}

func (n *nosy) Validate(_ context.Context, a *admission.Attributes) error {
	n.note("validate", a)
	if a.Operation == n.refuse {
		return apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, errors.New("nosy says no"))
	}
	return nil
}

func (n *nosy) note(what string, a *admission.Attributes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, fmt.Sprintf("%s %s %s/%s %s/%s dry=%v object=%v old=%v by %s", what, a.Operation, a.Resource.Name, a.Resource.Subresource, a.Namespace, a.Name, a.DryRun, a.Object != nil, a.Old != nil, a.User.Name))
}

func TestAdmissionSeesEveryWrite(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line, body, contentType string
		want                    []string
	}{
		{"POST " + inA + "pods", `{"metadata":{"name":"q"}}`, jsonType, []string{
			"mutate CREATE pods/ a/q dry=false object=true old=false by tester", "validate CREATE pods/ a/q dry=false object=true old=false by tester"}},
		{"PUT " + inA + "pods/p?dryRun=All", `{"metadata":{"name":"p"}}`, jsonType, []string{
			"mutate UPDATE pods/ a/p dry=true object=true old=true by tester", "validate UPDATE pods/ a/p dry=true object=true old=true by tester"}},
		{"PATCH " + inA + "pods/p/status", `{"status":{"message":"x"}}`, mergeT, []string{
			"mutate UPDATE pods/status a/p dry=false object=true old=true by tester", "validate UPDATE pods/status a/p dry=false object=true old=true by tester"}},
		{"PATCH " + inA + "pods/q?fieldManager=m", `{"apiVersion":"v1","kind":"Pod"}`, applyT, []string{
			"mutate CREATE pods/ a/q dry=false object=true old=false by tester", "validate CREATE pods/ a/q dry=false object=true old=false by tester"}},
		{"DELETE " + inA + "pods/p", "", "", []string{
			"mutate DELETE pods/ a/p dry=false object=false old=true by tester", "validate DELETE pods/ a/p dry=false object=false old=true by tester"}},
		{"DELETE " + inA + "pods", "", "", []string{
			"mutate DELETE pods/ a/ dry=false object=false old=true by tester", "validate DELETE pods/ a/ dry=false object=false old=true by tester"}},
		{"GET " + inA + "pods/p/log", "", "", []string{
			"mutate CONNECT pods/log a/p dry=false object=true old=false by tester", "validate CONNECT pods/log a/p dry=false object=true old=false by tester"}},
		{"GET " + inA + "pods/p", "", "", nil},
	} {
		t.Run(test.line, func(t *testing.T) {
			t.Parallel()
			plugin := &nosy{}
			a := newAPI(t, endpoints.Config{Admission: admission.Chain{plugin}})
			a.must("POST "+inA+"pods", `{"metadata":{"name":"p"}}`)
			plugin.seen = nil
			a.must(test.line, test.body, "Content-Type", test.contentType)
			if diff := cmp.Diff(test.want, plugin.seen); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdmissionRejects(t *testing.T) {
	t.Parallel()
	plugin := &nosy{}
	a := newAPI(t, endpoints.Config{Admission: admission.Chain{plugin}})
	a.must("POST "+inA+"configmaps", `{"metadata":{"name":"a"}}`)
	if got := a.must("GET "+inA+"configmaps/a", "").configMap(); got.Annotations["nosy"] == "" {
		t.Error("the change made by admission was not stored")
	}
	for op, line := range map[admission.Operation]string{
		admission.Create: "POST " + inA + "configmaps", admission.Update: "PUT " + inA + "configmaps/a", admission.Delete: "DELETE " + inA + "configmaps/a",
	} {
		plugin.refuse = op
		a.do(line, `{"metadata":{"name":"a"}}`).want(403, `configmaps "a" is forbidden: nosy says no`)
	}
	a.must("GET "+inA+"configmaps/a", "")
}

func TestDuplicateOwners(t *testing.T) {
	t.Parallel()
	const owner = `{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}`
	const body = `{"metadata":{"name":"a","ownerReferences":[` + owner + `,` + owner + `]}}`
	const warning = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"
	a := newAPI(t, endpoints.Config{})
	for _, line := range []string{"POST " + inA + "configmaps", "PUT " + inA + "configmaps/a"} {
		got := a.must(line, body)
		if len(got.configMap().OwnerReferences) != 1 {
			t.Errorf("%s: owners %v", line, got.configMap().OwnerReferences)
		}
		if diff := cmp.Diff([]string{warning}, got.warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", line, diff)
		}
	}
}
