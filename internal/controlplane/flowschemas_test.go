package controlplane

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/simulation"
)

const (
	flowSchemasPath    = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
	priorityLevelsPath = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
)

func flowSchemaBody(name, level string) string {
	return fmt.Sprintf(`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":%q},"spec":{"priorityLevelConfiguration":{"name":%q}}}`, name, level)
}

func priorityLevelBody(name string) string {
	return fmt.Sprintf(`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"PriorityLevelConfiguration","metadata":{"name":%q},
		"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":5,"limitResponse":{"type":"Reject"}}}}`, name)
}

// TestDanglingFlowSchemas checks that the condition of a schema is correct as soon as a write of
// the schema or of its level has returned.
func TestDanglingFlowSchemas(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	schema, level := flowSchemasPath+"/s", priorityLevelsPath+"/l"
	const missing, there = `named \"l\" but there is no such object`, `named \"l\" and it exists`
	as(t, c, "admin", "GET", flowSchemasPath+"/exempt", "", 200, `named \"exempt\" and it exists`)
	as(t, c, "admin", "POST", flowSchemasPath, flowSchemaBody("s", "l"), 201, `"status":{}`)
	as(t, c, "admin", "GET", schema, "", 200, missing)
	as(t, c, "admin", "POST", priorityLevelsPath, priorityLevelBody("l"), 201, "")
	as(t, c, "admin", "GET", schema, "", 200, there)
	as(t, c, "admin", "PATCH", schema+"/status", `{"status":null}`, 200, "")
	as(t, c, "admin", "GET", schema, "", 200, there)
	as(t, c, "admin", "PATCH", schema, `{"spec":{"priorityLevelConfiguration":{"name":"other"}}}`, 200, there)
	as(t, c, "admin", "GET", schema, "", 200, `named \"other\" but there is no such object`)
	as(t, c, "admin", "PATCH", schema, `{"spec":{"priorityLevelConfiguration":{"name":"l"}}}`, 200, "")
	as(t, c, "admin", "DELETE", level, "", 200, "")
	as(t, c, "admin", "GET", schema, "", 200, missing)
	as(t, c, "admin", "DELETE", schema, "", 200, "")
	as(t, c, "admin", "GET", schema, "", 404, "")
}

// TestDanglingRetry checks that the condition of a schema is updated later if the first attempt fails.
func TestDanglingRetry(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.Identity.Authenticator, env.Simulation = byHeader{}, simulation.New(simulation.Config{})
	c := newPlane(t, env, "/dangling")
	as(t, c, "admin", "POST", validatingPolicies, policyBody(t, "p", `matchConstraints: {resourceRules: [{apiGroups: [flowcontrol.apiserver.k8s.io], apiVersions: [v1], operations: [UPDATE], resources: [flowschemas/status]}]}, validations: [{expression: "false"}]`), 201, "")
	as(t, c, "admin", "POST", validatingBindings, bound(t, "p", "p", denies), 201, "")
	as(t, c, "admin", "POST", flowSchemasPath, flowSchemaBody("s", "l"), 201, "")
	as(t, c, "admin", "PATCH", flowSchemasPath+"/s", `{"spec":{"matchingPrecedence":7}}`, 200, `"status":{}`)
	as(t, c, "admin", "DELETE", validatingBindings+"/p", "", 200, "")
	env.Simulation.Advance(time.Hour)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, flowSchemasPath+"/s", nil)
		r.Header.Set("User", "admin")
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "but there is no such object") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the condition was not updated: %s", w.Body)
		}
	}
}

// TestDanglingConcurrently checks that the condition of a schema is correct after concurrent writes
// of the schema and its level.
func TestDanglingConcurrently(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	send := func(method, path, body string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User", "admin")
		c.ServeHTTP(httptest.NewRecorder(), r)
	}
	for round := range 10 {
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() { send(http.MethodPost, flowSchemasPath, flowSchemaBody("s", "l")) })
			writers.Go(func() { send(http.MethodPost, priorityLevelsPath, priorityLevelBody("l")) })
			writers.Go(func() { send(http.MethodDelete, priorityLevelsPath+"/l", "") })
		}
		writers.Wait()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, priorityLevelsPath+"/l", nil)
		r.Header.Set("User", "admin")
		c.ServeHTTP(w, r)
		want := `"reason":"NotFound"`
		if w.Code == http.StatusOK {
			want = `"reason":"Found"`
		}
		as(t, c, "admin", "GET", flowSchemasPath+"/s", "", 200, want)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		if round%2 == 1 {
			send(http.MethodDelete, flowSchemasPath+"/s", "")
		}
	}
}
