package server

import (
	"strings"
	"testing"
)

// TestDashboardMetrics: metrics that dashboards for kube-apiserver use have values after a write.
func TestDashboardMetrics(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.must(t, "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`)
	_, metrics := fetch(t, s.admin, s.URL+"/metrics")
	for _, want := range []string{
		`apiserver_admission_controller_admission_duration_seconds_count{name="NamespaceLifecycle",operation="CREATE",rejected="false",type="admit"}`,
		`apiserver_admission_step_admission_duration_seconds_count{operation="CREATE",rejected="false",type="admit"}`,
		`apiserver_admission_step_admission_duration_seconds_count{operation="CREATE",rejected="false",type="validate"}`,
		"\napiserver_storage_size_bytes ",
		`authorization_attempts_total{result="allowed"}`,
		`authorization_duration_seconds_count{result="allowed"}`,
		"\napiserver_client_certificate_expiration_seconds_count 1",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("there is no %s", want)
		}
	}
}
