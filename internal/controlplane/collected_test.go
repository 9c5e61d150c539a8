package controlplane

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/test/testserver"
)

// TestOldDefinitionsAreCollected checks that the resources of changed and deleted definitions are garbage
// collected, even after objects were written.
func TestOldDefinitionsAreCollected(t *testing.T) {
	t.Parallel()
	// Cached commits of the store and stopped timers of deadlines refer to resources. The store releases the
	// commits after part of the retention time. Go releases the timers at the latest when their deadline has
	// passed.
	backend, err := embedded.Open(embedded.Config{InMemory: true, Retention: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(newEnvOn(t, backend), "/collected", Options{Requests: RequestOptions{Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	const definitions, things = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/example.com/v1/things"
	if code, body := send(t, c, http.MethodPost, definitions, thingDefinition); code != 201 {
		t.Fatalf("create the definition: %d %s", code, body)
	}
	var old []weak.Pointer[rest.Resource]
	for n := range 5 {
		if code, body := send(t, c, http.MethodPost, things, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t%d"}}`, n)); code != 201 {
			t.Fatalf("create the object t%d: %d %s", n, code, body)
		}
		old = append(old, weak.Make(c.opened.Load().resources.catalog.Find(schema.GroupVersion{Group: "example.com", Version: "v1"}, "things", "")))
		description := fmt.Sprintf(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"generation %d"}]`, n)
		if code, body := patchJSON(t, c, definitions+"/things.example.com", description); code != 200 {
			t.Fatalf("change the definition: %d %s", code, body)
		}
	}
	if code, body := send(t, c, http.MethodDelete, definitions+"/things.example.com", ""); code != 200 {
		t.Fatalf("delete the definition: %d %s", code, body)
	}
	testserver.Eventually(t, time.Minute, func() error {
		runtime.GC()
		for n, resource := range old {
			if resource.Value() != nil {
				return fmt.Errorf("the resource of generation %d is still in memory", n+1)
			}
		}
		return nil
	})
}

// patchJSON sends a JSON patch.
func patchJSON(t *testing.T, c *ControlPlane, path, patch string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, path, strings.NewReader(patch))
	r.Header.Set("Content-Type", "application/json-patch+json")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
