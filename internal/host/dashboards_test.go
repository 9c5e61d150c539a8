package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"mainstay.dev/mainstay/internal/controlplane"
)

// TestDashboardMetrics checks that, after a write, /metrics contains series that dashboards for kube-apiserver
// use.
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
			t.Errorf("the metrics do not contain %s", want)
		}
	}
}

// TestStableMetrics checks that all stable and beta metrics of kube-apiserver v1.37 are registered, except
// metrics of features that Mainstay does not have.
func TestStableMetrics(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	registered := func(name string) bool {
		// A registry rejects a second description of the same name. There is no other way to find a metric
		// without samples.
		err := s.host.metrics.registry.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "a description that no metric has"}))
		return err != nil
	}
	for _, name := range []string{
		// Stable.
		"apiserver_admission_controller_admission_duration_seconds",
		"apiserver_admission_step_admission_duration_seconds",
		"apiserver_admission_webhook_admission_duration_seconds",
		"apiserver_current_inflight_requests",
		"apiserver_longrunning_requests",
		"apiserver_request_duration_seconds",
		"apiserver_request_total",
		"apiserver_requested_deprecated_apis",
		"apiserver_response_sizes",
		"apiserver_storage_objects",
		"apiserver_storage_size_bytes",
		// Beta.
		"apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
		"apiserver_authentication_config_controller_automatic_reloads_total",
		"apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
		"apiserver_authorization_config_controller_automatic_reloads_total",
		"apiserver_cel_compilation_duration_seconds",
		"apiserver_cel_evaluation_duration_seconds",
		"apiserver_flowcontrol_current_executing_requests",
		"apiserver_flowcontrol_current_executing_seats",
		"apiserver_flowcontrol_current_inqueue_requests",
		"apiserver_flowcontrol_dispatched_requests_total",
		"apiserver_flowcontrol_nominal_limit_seats",
		"apiserver_flowcontrol_rejected_requests_total",
		"apiserver_flowcontrol_request_wait_duration_seconds",
		"apiserver_validating_admission_policy_check_duration_seconds",
		"apiserver_validating_admission_policy_check_total",
		"kubernetes_feature_enabled",
		// Alpha in client-go, but used by dashboards.
		"workqueue_adds_total",
		"workqueue_depth",
		"workqueue_longest_running_processor_seconds",
		"workqueue_queue_duration_seconds",
		"workqueue_retries_total",
		"workqueue_unfinished_work_seconds",
		"workqueue_work_duration_seconds",
	} {
		if !registered(name) {
			t.Errorf("%s is not registered", name)
		}
	}
	// The health metrics are at /metrics/slis, after the first health check.
	fetch(t, s.admin, s.URL+"/readyz")
	_, slis := fetch(t, s.admin, s.URL+"/metrics/slis")
	for _, name := range []string{"kubernetes_healthcheck", "kubernetes_healthchecks_total"} {
		if !strings.Contains(slis, "\n"+name+"{") {
			t.Errorf("/metrics/slis does not contain %s", name)
		}
	}
	// These metrics do not apply, because validation has only one implementation and the metrics have no
	// stability framework.
	for _, name := range []string{
		"apiserver_validation_declarative_validation_mismatch_total", "apiserver_validation_declarative_validation_panic_total",
		"registered_metrics_total", "disabled_metrics_total", "hidden_metrics_total",
	} {
		if registered(name) {
			t.Errorf("%s is registered; document it", name)
		}
	}
}

// TestControllerAndRuleMetrics checks the metrics of work queues and of validation rules.
func TestControllerAndRuleMetrics(t *testing.T) {
	t.Parallel()
	config := reportsVersions(Config{}) // enables a controller
	config.ControlPlane.Controllers.Names = append([]string{"*"}, controlplane.OptionalControllers()...)
	s := start(t, config)
	s.must(t, "POST", "/api/v1/namespaces", `{"metadata":{"name":"gone"}}`)
	s.must(t, "DELETE", "/api/v1/namespaces/gone", "")
	s.must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Cluster",
		"names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.a > 1"}]}}}}}]}}`)
	s.must(t, "POST", "/apis/example.com/v1/things", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"a":2}}`)
	missing := func() string {
		_, metrics := fetch(t, s.admin, s.URL+"/metrics")
		for _, want := range []string{
			`workqueue_depth{name="namespace-controller"} 0`,
			`workqueue_unfinished_work_seconds{name="namespace-controller"} 0`,
			`workqueue_longest_running_processor_seconds{name="garbage-collector-controller"} 0`,
			"\napiserver_cel_compilation_duration_seconds_count 1\n",
			"\napiserver_cel_evaluation_duration_seconds_count 1\n",
		} {
			if !strings.Contains(metrics, want) {
				return want
			}
		}
		for _, controller := range controlplane.Controllers() {
			const withoutQueue = "validatingadmissionpolicy-status-controller" // its work is part of policy writes
			if want := `workqueue_depth{name="` + controller + `"}`; controller != withoutQueue && !strings.Contains(metrics, want) {
				return want
			}
		}
		if strings.Contains(metrics, `workqueue_work_duration_seconds_count{name="namespace-controller"} 0`) {
			return "work of the namespace controller"
		}
		return ""
	}
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return missing() == "", nil })
	if err != nil {
		t.Errorf("the metrics do not contain %q", missing())
	}
}
