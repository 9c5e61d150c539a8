package controlplane

import (
	"net/http"
	"testing"
)

// TestBuiltInsCannotBeShadowed checks that permission to write definitions or registrations does not suffice
// to store objects in the key range of a built-in kind, or to respond to requests for the kind.
func TestBuiltInsCannotBeShadowed(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	definition := func(plural, group string) string {
		return `{"metadata":{"name":"` + plural + `.` + group + `","annotations":{"api-approved.kubernetes.io":"https://github.com/kubernetes/kubernetes/pull/1"}},
			"spec":{"group":"` + group + `","scope":"Cluster","names":{"plural":"` + plural + `","kind":"Shadow"},
			"versions":[{"name":"v9","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	as(t, c, "admin", http.MethodPost, definitions, definition("customresourcedefinitions", "apiextensions.k8s.io"), 422, "metadata.name: Forbidden")
	as(t, c, "admin", http.MethodPost, definitions, definition("apiservices", "apiregistration.k8s.io"), 422, "metadata.name: Forbidden")
	as(t, c, "admin", http.MethodPost, definitions, definition("things", "apiextensions.k8s.io"), 201, "")

	const registrations = "/apis/apiregistration.k8s.io/v1/apiservices"
	service := `{"spec":{"service":{"namespace":"default","name":"s"},"insecureSkipTLSVerify":true}}`
	as(t, c, "admin", http.MethodPost, registrations, `{"metadata":{"name":"v1.batch"},"spec":{"group":"batch","version":"v1",
		"groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"s"}}}`, 422, "spec.service: Forbidden")
	as(t, c, "admin", http.MethodPatch, registrations+"/v1.batch", service, 422, "spec.service: Forbidden")
	as(t, c, "admin", http.MethodGet, "/apis/batch/v1/jobs", "", 200, `"kind":"JobList"`)
}
