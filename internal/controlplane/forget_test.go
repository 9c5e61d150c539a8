package controlplane

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/test/testserver"
)

// TestForget checks that the metrics of a custom resource are deleted when no control plane of the
// host serves the resource any more.
func TestForget(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	env := newEnv(t)
	env.Telemetry.Requests = telemetry.NewRequests(registry)
	one, other := newPlane(t, env, "/one"), newPlane(t, env, "/other")
	env.Telemetry.Defined = func(r schema.GroupResource) bool { return one.Defines(r) || other.Defines(r) }
	const definitions, things = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/example.com/v1/things"
	for _, plane := range []*ControlPlane{one, other} {
		if code, body := send(t, plane, http.MethodPost, definitions, thingDefinition); code != 201 {
			t.Fatalf("create the definition: %d %s", code, body)
		}
		if code, body := send(t, plane, http.MethodGet, things, ""); code != 200 {
			t.Fatalf("list the objects: %d %s", code, body)
		}
	}
	for _, tt := range []struct {
		plane   *ControlPlane
		counted bool
	}{{one, true}, {other, false}} {
		if code, body := send(t, tt.plane, http.MethodDelete, definitions+"/things.example.com", ""); code != 200 {
			t.Fatalf("delete the definition: %d %s", code, body)
		}
		resource := schema.GroupResource{Group: "example.com", Resource: "things"}
		testserver.Eventually(t, time.Minute, func() error {
			if tt.plane.Defines(resource) {
				return errors.New("the definition is still there")
			}
			return nil
		})
		forgetMetrics(env, resource)
		if counted := counts(t, registry, resource); counted != tt.counted {
			t.Errorf("after the deletion of the definition at %s: metrics exist: %t", tt.plane.prefix, counted)
		}
	}
}

const thingDefinition = `{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"things","kind":"Thing"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

// counts reports whether any metric has the labels of a resource.
func counts(t *testing.T, registry *prometheus.Registry, resource schema.GroupResource) bool {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			of := map[string]string{}
			for _, label := range metric.GetLabel() {
				of[label.GetName()] = label.GetValue()
			}
			if of["group"] == resource.Group && of["resource"] == resource.Resource {
				return true
			}
		}
	}
	return false
}
