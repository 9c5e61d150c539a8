package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// namespaceTest is a control plane with a slow webhook. While the webhook reviews the creation of an object, the
// test changes the namespace of the object.
type namespaceTest struct {
	*testing.T
	plane *ControlPlane
	// during is called by the webhook with the namespace of the object.
	during func(namespace string)
}

func newNamespaceTest(t *testing.T, resources string) *namespaceTest {
	t.Helper()
	n := &namespaceTest{T: t, plane: newPlane(t, newEnv(t), "/namespaces")}
	configuration := configured(t, func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct{ UID, Operation, Namespace, Name string }
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		if review.Request.Operation == "CREATE" && review.Request.Name == "late" {
			n.during(review.Request.Namespace)
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	})
	expect(t, n.plane, "POST", webhookConfigurations, configuration("slow", resources), 201, "")
	return n
}

// deleteNamespace deletes a namespace and waits until it has no content other than the objects with a finalizer.
func (n *namespaceTest) deleteNamespace(namespace string) {
	path := "/api/v1/namespaces/" + namespace
	r := httptest.NewRequestWithContext(n.Context(), http.MethodDelete, path, nil)
	n.plane.ServeHTTP(httptest.NewRecorder(), r)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		w := httptest.NewRecorder()
		n.plane.ServeHTTP(w, httptest.NewRequestWithContext(n.Context(), http.MethodGet, path, nil))
		if w.Code == http.StatusNotFound || strings.Contains(w.Body.String(), "SomeFinalizersRemain") {
			return
		}
		if time.Now().After(deadline) {
			n.Errorf("namespace %s is not deleted: %d %s", namespace, w.Code, w.Body)
			return
		}
	}
}

// TestNamespaceDeletedDuringCreation checks that no object is created in a namespace that was deleted after the
// plugin NamespaceLifecycle has checked it.
func TestNamespaceDeletedDuringCreation(t *testing.T) {
	t.Parallel()
	const missing, terminating = `namespaces \"a\" not found`, `because it is being terminated`
	const definition = `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	const configMaps, leases, widgets = "/api/v1/namespaces/a/configmaps", "/apis/coordination.k8s.io/v1/namespaces/a/leases", "/apis/example.com/v1/namespaces/a/widgets"
	for name, tt := range map[string]struct {
		resource, method, path, body string
		finalizer                    bool // an object with a finalizer keeps the namespace
		code                         int
		message                      string
	}{
		"created":                  {"configmaps", "POST", configMaps, `{"metadata":{"name":"late"}}`, false, 404, missing},
		"created while it remains": {"configmaps", "POST", configMaps, `{"metadata":{"name":"late"}}`, true, 403, terminating},
		"created by an update":     {"leases", "PUT", leases + "/late", `{"metadata":{"name":"late"}}`, false, 404, missing},
		"custom":                   {"widgets", "POST", widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"late"}}`, false, 404, missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNamespaceTest(t, tt.resource)
			n.during = n.deleteNamespace
			expect(t, n.plane, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, 201, "")
			expect(t, n.plane, "POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`, 201, "")
			if tt.finalizer {
				expect(t, n.plane, "POST", "/api/v1/namespaces/a/secrets", `{"metadata":{"name":"s","finalizers":["example.com/f"]}}`, 201, "")
			}
			expect(t, n.plane, tt.method, tt.path, tt.body, tt.code, tt.message)
			n.during = func(string) {}
			if !tt.finalizer {
				expect(t, n.plane, "POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`, 201, "")
				expect(t, n.plane, "GET", strings.TrimSuffix(tt.path, "/late")+"/late", "", 404, "")
			}
		})
	}
}

// TestNamespaceChangedDuringCreation checks that other changes of a namespace do not disturb a creation in it.
func TestNamespaceChangedDuringCreation(t *testing.T) {
	t.Parallel()
	n := newNamespaceTest(t, "configmaps")
	n.during = func(namespace string) {
		r := httptest.NewRequestWithContext(n.Context(), http.MethodPatch, "/api/v1/namespaces/"+namespace, strings.NewReader(`{"metadata":{"labels":{"a":"b"}}}`))
		r.Header.Set("Content-Type", "application/merge-patch+json")
		n.plane.ServeHTTP(httptest.NewRecorder(), r)
	}
	expect(t, n.plane, "POST", configMapsOfDefault, `{"metadata":{"name":"late"}}`, 201, "")
	expect(t, n.plane, "GET", "/api/v1/namespaces/default", "", 200, `"a":"b"`)
}
