package controlplane

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/telemetry"
)

// TestHealthIsTrue checks that a loop that has ended and an unfinished hook fail their health
// checks and those that depend on them.
func TestHealthIsTrue(t *testing.T) {
	t.Parallel()
	h := &healthChecks{
		settings: &settings{env: &Env{}, gates: feature.Defaults()}, loops: &loops{logger: slog.New(slog.DiscardHandler)}, bootstrap: bootstrap.New(bootstrap.Config{}),
	}
	failing := func() []string {
		var names []string
		for _, check := range append(h.postStartHooks(), telemetry.Check{Name: "informer-sync", Run: h.informersRunning}) {
			if check.Run(t.Context()) != nil {
				names = append(names, strings.TrimPrefix(check.Name, "poststarthook/"))
			}
		}
		return names
	}
	notDone := []string{
		"start-system-namespaces-controller", "start-legacy-token-tracking-controller", "rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes",
		"priority-and-fairness-config-producer", "bootstrap-controller", "start-kubernetes-service-cidr-controller",
	}
	if diff := cmp.Diff(notDone, failing()); diff != "" {
		t.Errorf("before the hooks have run (-want +got):\n%s", diff)
	}
	h.loops.start(t.Context(), component{name: definitionObjects, run: func(context.Context) error { return nil }})
	h.loops.wait()
	for _, name := range []string{"crd-informer-synced", "start-apiextensions-controllers", "informer-sync"} {
		if !slices.Contains(failing(), name) {
			t.Errorf("%s passes although the loop of definitions has ended", name)
		}
	}
}
