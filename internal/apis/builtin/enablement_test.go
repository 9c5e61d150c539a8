package builtin_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/emulation"
)

func TestEnablement(t *testing.T) {
	t.Parallel()
	known := []schema.GroupVersion{
		{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "apps", Version: "v1beta1"},
		{Group: "batch", Version: "v1"}, {Group: "batch", Version: "v2alpha1"},
	}
	for _, tt := range []struct {
		config   map[string]string
		on, off  string // GROUP/VERSION/RESOURCE
		problems []string
	}{
		{on: "apps/v1/deployments", off: "apps/v1beta1/deployments"},
		{on: "/v1/pods", off: "batch/v2alpha1/jobs"},
		{config: map[string]string{"api/all": "true"}, on: "batch/v2alpha1/jobs"},
		{config: map[string]string{"api/all": "false", "/v1": "true"}, on: "/v1/pods", off: "apps/v1/deployments"},
		{config: map[string]string{"api/beta": "true"}, on: "apps/v1beta1/deployments", off: "batch/v2alpha1/jobs"},
		{config: map[string]string{"api/alpha": "true"}, on: "batch/v2alpha1/jobs", off: "apps/v1beta1/deployments"},
		{config: map[string]string{"api/all": "true", "api/beta": "false"}, on: "batch/v2alpha1/jobs", off: "apps/v1beta1/deployments"},
		{config: map[string]string{"api/ga": "false", "apps/v1beta1": ""}, on: "apps/v1beta1/deployments", off: "apps/v1/deployments"},
		{config: map[string]string{"apps/v1beta1/deployments": "true"}, on: "apps/v1beta1/deployments", off: "apps/v1beta1/replicasets"},
		{config: map[string]string{"apps/v1/deployments": "false"}, on: "apps/v1/replicasets", off: "apps/v1/deployments"},
		{config: map[string]string{"apps/v1": "0", "apps/v1/deployments": "1"}, on: "apps/v1/deployments", off: "apps/v1/replicasets"},
		{config: map[string]string{"api/all": "false"}, problems: []string{"invalid runtime-config with only api/all=false"}},
		{config: map[string]string{"api/all": "yes"}, problems: []string{"invalid value api/all=yes"}},
		{config: map[string]string{"v1": "true"}, problems: []string{"runtime-config invalid key v1"}},
		{config: map[string]string{"a/b/c/d": "true", "v1": "true"}, problems: []string{"runtime-config invalid key a/b/c/d", "runtime-config invalid key v1"}},
		{config: map[string]string{"nope/v1": "true"}, problems: []string{"unknown api groups nope/v1"}},
		{config: map[string]string{"apps/v9": "true"}, problems: []string{"group version apps/v9 that has not been registered"}},
		{config: map[string]string{"apps/v1": "maybe"}, problems: []string{"invalid value of apps/v1: maybe, err: "}},
		{config: map[string]string{"apps/v1/Deployments": "true"}, problems: []string{`resource is always lowercase plural, not "Deployments"`}},
	} {
		e, err := builtin.NewEnablement(tt.config, known)
		if (err != nil) != (len(tt.problems) > 0) {
			t.Errorf("configuration %v: error %v, want the problems %q", tt.config, err, tt.problems)
		}
		for _, problem := range tt.problems {
			if err != nil && !strings.Contains(err.Error(), problem) {
				t.Errorf("%v: %v does not contain %q", tt.config, err, problem)
			}
		}
		if on := parseResource(tt.on); tt.on != "" && !e.Serves(on) {
			t.Errorf("%v: %s is not served", tt.config, tt.on)
		}
		if off := parseResource(tt.off); tt.off != "" && e.Serves(off) {
			t.Errorf("%v: %s is served", tt.config, tt.off)
		}
	}
}

// TestServesNewer checks which resources that are newer than the emulated version are served.
func TestServesNewer(t *testing.T) {
	t.Parallel()
	const claims, policies = "resource.k8s.io/v1/resourceclaims", "admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies"
	for _, tt := range []struct {
		minor          int
		newer          builtin.NewerResources
		enabled        string // a key of --runtime-config
		resource, kind string
		want           bool
	}{
		{33, builtin.NewerResources{}, "", "apps/v1/deployments", "Deployment", true},
		{33, builtin.NewerResources{}, "resource.k8s.io/v1", claims, "ResourceClaim", false},
		{34, builtin.NewerResources{}, "", claims, "ResourceClaim", true},
		{37, builtin.NewerResources{}, "", claims, "ResourceClaim", true},
		{33, builtin.NewerResources{Stable: true}, "", claims, "ResourceClaim", true},
		{33, builtin.NewerResources{Stable: true}, "api/beta", policies, "MutatingAdmissionPolicy", false},
		{33, builtin.NewerResources{Explicit: true}, "api/beta", policies, "MutatingAdmissionPolicy", true},
		{33, builtin.NewerResources{Explicit: true}, "", policies, "MutatingAdmissionPolicy", false},
		{34, builtin.NewerResources{}, "", policies, "MutatingAdmissionPolicy", false},
		{34, builtin.NewerResources{}, "api/beta", policies, "MutatingAdmissionPolicy", true},
	} {
		resource := parseResource(tt.resource)
		env := &builtin.Env{Release: emulation.New(tt.minor, feature.DefaultsOf(tt.minor)), Newer: tt.newer}
		if tt.enabled != "" {
			var err error
			if env.Enablement, err = builtin.NewEnablement(map[string]string{tt.enabled: "true"}, []schema.GroupVersion{resource.GroupVersion()}); err != nil {
				t.Fatal(err)
			}
		}
		if got := env.Serves(resource, tt.kind); got != tt.want {
			t.Errorf("1.%d with %q and %+v serves %s: %t, want %t", tt.minor, tt.enabled, tt.newer, tt.resource, got, tt.want)
		}
	}
}

func parseResource(name string) schema.GroupVersionResource {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 3 {
		return schema.GroupVersionResource{}
	}
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
}
