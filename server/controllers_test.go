package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestWarnedOfDeletions: who deletes what only a controller can bring to its end
// is warned, while no controller runs.
func TestWarnedOfDeletions(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	warnings := func(path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "DELETE", s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := s.admin.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("DELETE %s: %s", path, resp.Status)
		}
		return strings.Join(resp.Header.Values("Warning"), "\n")
	}
	create := func(path, body string) {
		t.Helper()
		if code, answer := s.do(t, "POST", path, body); code != 201 {
			t.Fatalf("POST %s: %d %s", path, code, answer)
		}
	}
	make := func(n int) (namespace, object string) {
		t.Helper()
		namespace, object = fmt.Sprintf("n%d", n), fmt.Sprintf("m%d", n)
		create("/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`)
		create(configMaps, `{"metadata":{"name":"`+object+`"}}`)
		return "/api/v1/namespaces/" + namespace, configMaps + "/" + object
	}
	const (
		foreground = `{"propagationPolicy":"Foreground"}`
		orphan     = `{"propagationPolicy":"Orphan"}`
		nobody     = "no kube-controller-manager holds its lease"
	)
	namespace, object := make(1)
	tests := []struct{ path, body, want string }{
		{namespace, `{"dryRun":["All"]}`, ""},
		{namespace, "", `namespace \"n1\" stays Terminating until a controller empties it`},
		{namespace, "", `namespace \"n1\" stays Terminating`}, // who asks again is waiting again
		{object, foreground, `configmaps \"m1\" stays until the garbage collector removes its finalizer \"foregroundDeletion\"`},
	}
	for _, tt := range tests {
		if got := warnings(tt.path, tt.body); tt.want == "" && got != "" || !strings.Contains(got, tt.want) || tt.want != "" && !strings.Contains(got, nobody) {
			t.Errorf("DELETE %s %s warns %q, want %q", tt.path, tt.body, got, tt.want)
		}
	}
	_, object = make(2)
	if got := warnings(object, ""); got != "" {
		t.Errorf("a deletion that needs no controller warns %q", got)
	}
	create(configMaps, `{"metadata":{"name":"m2"}}`)
	if got := warnings(configMaps, orphan); !strings.Contains(got, nobody) {
		t.Errorf("the deletion of a collection warns %q", got)
	}

	lease := func(renewed time.Time) string {
		return fmt.Sprintf(`{"metadata":{"name":"kube-controller-manager"},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":%q}}`,
			renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	create(leases, lease(time.Now().Add(-time.Minute)))
	namespace, _ = make(3)
	if got := warnings(namespace, ""); !strings.Contains(got, nobody) {
		t.Errorf("with a lease that has ended a deletion warns %q", got)
	}
	warnings(leases+"/kube-controller-manager", "")
	create(leases, lease(time.Now().Add(time.Hour)))
	namespace, object = make(4)
	if got := warnings(namespace, "") + warnings(object, foreground); got != "" {
		t.Errorf("with a controller manager deletions warn %q", got)
	}
}
