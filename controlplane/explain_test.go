package controlplane

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"mainstay.dev/mainstay/endpoints"
)

// explained sends a request as the administrator, and returns what admission did.
func explained(t *testing.T, c *ControlPlane, method, path, body string) endpoints.AdmissionExplanation {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User", "admin")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	var e endpoints.AdmissionExplanation
	if err := json.Unmarshal(w.Body.Bytes(), &e); w.Code != 200 || err != nil || e.Kind != "AdmissionExplanation" {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return e
}

// TestExplainAdmission: a dry run tells what each plugin did, and what it would have
// answered.
func TestExplainAdmission(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	const explain = "?dryRun=All&explain=admission"
	pod := `{"metadata":{"name":"p"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`
	created := explained(t, c, "POST", pods+explain, pod)
	if created.Code != 201 || created.Status != nil || !strings.Contains(string(created.Object), `"hostNetwork":true`) {
		t.Errorf("created: %d %s %s", created.Code, created.Object, created.Status)
	}
	changed := false
	for _, step := range created.Plugins {
		changed = changed || step.Plugin == "DefaultTolerationSeconds" && len(step.Changes) == 1 && step.Changes[0].Path == "spec.tolerations"
	}
	if !changed {
		t.Errorf("who added tolerations: %+v", created.Plugins)
	}
	as(t, c, "admin", "GET", pods+"/p", "", 404, "")

	as(t, c, "admin", "PATCH", "/api/v1/namespaces/default", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`, 200, "")
	refused := explained(t, c, "POST", pods+explain, pod)
	last := refused.Plugins[len(refused.Plugins)-1]
	if refused.Code != 403 || refused.Object != nil || last.Plugin != "PodSecurity" || last.Refusal == "" || last.AuditAnnotations["pod-security.kubernetes.io/enforce-policy"] != "baseline:latest" {
		t.Errorf("refused: %d %s by %+v", refused.Code, refused.Status, last)
	}
	as(t, c, "admin", "POST", pods, pod, 403, `"details":{"name":"p","kind":"pods","causes":[{"reason":"AdmissionPlugin","message":"PodSecurity"}]}`)
	as(t, c, "admin", "PATCH", "/api/v1/namespaces/default", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"x"}}}`, 422,
		`"causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"x\": must be one of privileged, baseline, restricted","field":"metadata.labels[pod-security.kubernetes.io/enforce]"}]`)

	if deleted := explained(t, c, "DELETE", "/api/v1/namespaces/kube-system"+explain, ""); deleted.Code != 403 || deleted.Plugins[0].Plugin != "NamespaceLifecycle" {
		t.Errorf("deleted: %+v", deleted)
	}
	as(t, c, "admin", "POST", pods+"?explain=admission", pod, 400, "explain=admission needs dryRun=All")
	as(t, c, "admin", "POST", pods+"?explain=admission&dryRun=All&dryRun=x", pod, 400, "explain=admission needs dryRun=All")
	as(t, c, "admin", "GET", pods+explain, "", 400, "explain=admission is for create, update, patch and delete")
	as(t, c, "admin", "POST", pods+"?explain=other&dryRun=All", pod, 403, "PodSecurity")
}
