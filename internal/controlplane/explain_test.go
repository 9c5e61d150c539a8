package controlplane

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/endpoints"
)

// explained sends a request as the administrator and returns the admission explanation.
func explained(t *testing.T, c *ControlPlane, method, path, body string) endpoints.AdmissionExplanation {
	t.Helper()
	return explainedTo(t, c, "admin", method, path, body)
}

func explainedTo(t *testing.T, c *ControlPlane, user, method, path, body string) endpoints.AdmissionExplanation {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	var e endpoints.AdmissionExplanation
	if err := json.Unmarshal(w.Body.Bytes(), &e); w.Code != 200 || err != nil || e.Kind != "AdmissionExplanation" {
		t.Fatalf("explain %s %s: %d %s: %v", method, path, w.Code, w.Body, err)
	}
	return e
}

// TestExplainAdmission checks that a dry run reports the effect of each plugin and the response.
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
		t.Errorf("no plugin has added tolerations: %+v", created.Plugins)
	}
	as(t, c, "admin", "GET", pods+"/p", "", 404, "")

	as(t, c, "admin", "PATCH", "/api/v1/namespaces/default", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`, 200, "")
	refused := explained(t, c, "POST", pods+explain, pod)
	last := refused.Plugins[len(refused.Plugins)-1]
	if refused.Code != 403 || refused.Object != nil || last.Plugin != "PodSecurity" || last.Rejection == "" || last.AuditAnnotations["pod-security.kubernetes.io/enforce-policy"] != "baseline:latest" {
		t.Errorf("refused: %d %s by %+v", refused.Code, refused.Status, last)
	}
	as(t, c, "admin", "POST", pods, pod, 403, `"details":{"name":"p","kind":"pods","causes":[{"reason":"AdmissionPlugin","message":"PodSecurity"}]}`)
	as(t, c, "admin", "PATCH", "/api/v1/namespaces/default", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"x"}}}`, 422,
		`"causes":[{"reason":"FieldValueInvalid","message":"Invalid value: \"x\": must be one of privileged, baseline, restricted","field":"metadata.labels[pod-security.kubernetes.io/enforce]"}]`)

	if deleted := explained(t, c, "DELETE", "/api/v1/namespaces/kube-system"+explain, ""); deleted.Code != 403 || deleted.Plugins[0].Plugin != "NamespaceLifecycle" {
		t.Errorf("deleted: %+v", deleted)
	}
	// A user who may not get admissionexplanations receives no details.
	as(t, c, "admin", "POST", roles, roleBody("writer", `{"apiGroups":[""],"resources":["pods"],"verbs":["create"]}`), 201, "")
	as(t, c, "admin", "POST", bindings, `{"metadata":{"name":"writer"},"roleRef":{"kind":"Role","name":"writer"},"subjects":[{"kind":"User","name":"jane"}]}`, 201, "")
	for _, step := range explainedTo(t, c, "jane", "POST", pods+explain, pod).Plugins {
		if step.Changes != nil || step.AuditAnnotations != nil || step.Decisions != nil || step.Took != 0 {
			t.Errorf("an unprivileged user sees %+v", step)
		}
	}
	as(t, c, "admin", "POST", pods+"?explain=admission", pod, 400, "explain=admission needs dryRun=All")
	as(t, c, "admin", "POST", pods+"?explain=admission&dryRun=All&dryRun=x", pod, 400, "explain=admission needs dryRun=All")
	as(t, c, "admin", "GET", pods+explain, "", 400, "explain=admission is for create, update, patch and delete")
	as(t, c, "admin", "POST", pods+"?explain=other&dryRun=All", pod, 403, "PodSecurity")
}

// TestExplainPolicies checks that a dry run reports the effect of each policy, and that a rejection
// names the policy and the expression that caused it.
func TestExplainPolicies(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	as(t, c, "admin", "POST", configMapsPath, configMap("limits", `,"data":{"max":"1"}`), 201, "")
	as(t, c, "admin", "POST", mutatingPolicies, policyBody(t, "label", `reinvocationPolicy: Never, failurePolicy: Fail,
		mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]`), 201, "")
	as(t, c, "admin", "POST", mutatingBindings, bound(t, "labels", "label", ""), 201, "")
	as(t, c, "admin", "POST", validatingPolicies, policyBody(t, "size", `paramKind: {apiVersion: v1, kind: ConfigMap},
		validations: [{expression: "'a' in object.metadata.labels"}, {expression: "!has(object.data) ||\n\n  object.data.size() <= int(params.data.max)", message: too many}, {expression: "object.metadata.name != 'err' ||\n  object.data.none == '' "}]`), 201, "")
	as(t, c, "admin", "POST", validatingBindings, bound(t, "sizes", "size", denies+", paramRef: {name: limits, parameterNotFoundAction: Deny}"), 201, "")
	as(t, c, "admin", "POST", validatingPolicies, policyBody(t, "unmet", `matchConditions: [{name: never, expression: "false"}], validations: [{expression: "false"}]`), 201, "")
	as(t, c, "admin", "POST", validatingBindings, bound(t, "unmet", "unmet", denies), 201, "")

	const explain = "?dryRun=All&explain=admission"
	decisions := map[string]admission.Decision{}
	for _, step := range explained(t, c, "POST", configMapsPath+explain, configMap("x", `,"data":{"a":"","b":""}`)).Plugins {
		for _, d := range step.Decisions {
			decisions[d.Policy] = d
		}
	}
	label, size := decisions["label"], decisions["size"]
	if len(label.Changes) != 1 || label.Changes[0].Path != "metadata.labels" || len(label.Evaluations) != 1 || label.Evaluations[0].Field != "spec.mutations[0].applyConfiguration.expression" {
		t.Errorf("label: %+v", label)
	}
	if len(size.Evaluations) != 3 || !*size.Evaluations[0].Valid || *size.Evaluations[1].Valid || size.Evaluations[1].Message != "too many" || size.Param != "default/limits" || size.Binding != "sizes" {
		t.Errorf("size: %+v", size)
	}
	if decisions["unmet"].Unmet != "never" {
		t.Errorf("unmet: %+v", decisions["unmet"])
	}
	as(t, c, "admin", "POST", configMapsPath, configMap("x", `,"data":{"a":"","b":""}`), 422,
		`{"reason":"AdmissionPolicy","message":"ValidatingAdmissionPolicy 'size' with binding 'sizes' and parameter 'default/limits': !has(object.data) ||\n\n  object.data.size() \u003c= int(params.data.max)","field":"spec.validations[1].expression"}`)
	as(t, c, "admin", "POST", configMapsPath, configMap("err", `,"data":{"a":""}`), 422,
		`parameter 'default/limits' at line 2: object.metadata.name != 'err' ||\n  object.data.none == ''","field":"spec.validations[2].expression"`)
	as(t, c, "admin", "PATCH", mutatingPolicies+"/label", `{"spec":{"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/none'}]"}}]}}`, 200, "")
	as(t, c, "admin", "POST", configMapsPath, configMap("y", ""), 403, `"reason":"AdmissionPolicy","message":"MutatingAdmissionPolicy 'label' with binding 'labels': [JSONPatch`)
}
