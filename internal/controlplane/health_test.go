package controlplane

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/storagetest"
	"mainstay.dev/mainstay/internal/telemetry"
)

// TestHealthIsTrue checks that the health checks which depend on an unfinished hook or on an ended loop fail.
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

// TestLivezGracePeriod checks that unfinished hooks fail /livez only after the grace period.
func TestLivezGracePeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &healthChecks{
			settings: &settings{env: &Env{Storage: Storage{Backend: storagetest.InMemory(t)}}, gates: feature.Defaults(), started: time.Now()},
			loops:    &loops{logger: slog.New(slog.DiscardHandler)}, bootstrap: bootstrap.New(bootstrap.Config{}),
		}
		h.settings.options.Health.LivezGracePeriod = time.Minute
		checks := h.checks()
		failed := func(path string) bool {
			i := slices.IndexFunc(checks[path], func(c telemetry.Check) bool { return c.Name == "poststarthook/rbac/bootstrap-roles" })
			return checks[path][i].Run(t.Context()) != nil
		}
		if failed("/livez") || !failed("/readyz") || !failed("/healthz") {
			t.Error("the period must apply to /livez only")
		}
		time.Sleep(time.Minute)
		if !failed("/livez") {
			t.Error("the check passes after the period")
		}
	})
}
