package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry"
)

// healthChecks creates the health checks of a control plane.
type healthChecks struct {
	settings  *settings
	loops     *loops
	bootstrap *bootstrap.Bootstrap
	// storageVersions reports whether the server reports storage versions.
	storageVersions bool
}

// healthPaths returns the paths at which lists of checks are served.
func healthPaths() []string { return []string{"/healthz", "/livez", "/readyz"} }

// checkPaths returns the paths of single checks.
func (h *healthChecks) checkPaths() []string {
	var paths []string
	for path, checks := range h.checks() {
		for _, check := range checks {
			paths = append(paths, path+"/"+check.Name)
		}
	}
	return paths
}

// checks returns the checks by path, with the names and in the order of kube-apiserver. It omits the
// checks of features that this server does not have: loopback-serving-certificate and the hooks of
// address repair, peer proxies, object counts and the informers of admission.
func (h *healthChecks) checks() map[string][]telemetry.Check {
	env, options := h.settings.env, &h.settings.options
	hooks := h.postStartHooks()
	live := slices.Concat([]telemetry.Check{telemetry.Ping()}, options.Checks, env.Health.Live)
	live = append(live, toleratesStorageFaults(storageCheck("etcd", "", env.Storage.Backend, options.Storage.HealthTimeout)))
	ready := append(slices.Clone(live), storageCheck("etcd-readiness", "", env.Storage.Backend, options.Storage.ReadyTimeout))
	for n, o := range env.Storage.Overrides {
		check := toleratesStorageFaults(storageCheck(fmt.Sprintf("etcd-override-%d", n), "etcd", o.Backend, options.Storage.HealthTimeout))
		live = append(live, check)
		ready = append(ready, check, storageCheck(fmt.Sprintf("etcd-override-readiness-%d", n), "etcd-readiness", o.Backend, options.Storage.ReadyTimeout))
	}
	ready = append(ready, env.Health.Storage...)
	ready = append(ready, telemetry.Check{Name: "informer-sync", Run: h.informersRunning})
	ready = append(ready, hooks...)
	healthy := slices.Clone(live)
	graceEnds := h.settings.started.Add(options.Health.LivezGracePeriod)
	for _, hook := range hooks {
		hook = toleratesStorageFaults(hook)
		healthy, live = append(healthy, hook), append(live, ignoresUnfinished(hook, graceEnds))
	}
	ready = append(ready, env.Health.Ready...)
	return map[string][]telemetry.Check{"/healthz": slices.Concat(healthy, env.Health.Storage), "/livez": live, "/readyz": ready}
}

func storageCheck(name, group string, backend kv.Backend, timeout time.Duration) telemetry.Check {
	return telemetry.Check{Name: name, Group: group, Run: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return backend.Health(ctx)
	}}
}

// toleratesStorageFaults returns a liveness check that passes during faults that a restart does not repair,
// such as a full disk or a damaged file. During such faults, reads still work.
func toleratesStorageFaults(check telemetry.Check) telemetry.Check {
	return telemetry.Check{Name: check.Name, Group: check.Group, Run: func(ctx context.Context) error {
		err := check.Run(ctx)
		if outOfSpace(err) || errors.Is(err, kv.ErrCorrupt) {
			return nil
		}
		return err
	}}
}

// ignoresUnfinished returns a check that passes while its hook is not finished, until the time before. It
// returns all other errors.
func ignoresUnfinished(check telemetry.Check, before time.Time) telemetry.Check {
	run := check.Run
	check.Run = func(ctx context.Context) error {
		err := run(ctx)
		if errors.Is(err, bootstrap.ErrNotFinished) && time.Now().Before(before) {
			return nil
		}
		return err
	}
	return check
}

// informersRunning returns an error if a loop that follows objects of the server has ended. The objects are
// loaded before the control plane serves requests.
func (h *healthChecks) informersRunning(ctx context.Context) error {
	return errors.Join(
		h.loops.check(configurationObjects, admissionFiles),
		h.definitions(ctx), h.registrations(ctx),
	)
}

func (h *healthChecks) definitions(context.Context) error {
	return h.loops.check(configurationObjects, definitionObjects)
}

func (h *healthChecks) registrations(context.Context) error {
	return h.loops.check(configurationObjects, registrationObjects, peerServers, clusterObjects)
}

// postStartHooks returns the checks of the post-start hooks. In this server, one loop does the work of
// several hooks of kube-apiserver.
func (h *healthChecks) postStartHooks() []telemetry.Check {
	// done is the check of hooks that finish before the server serves requests.
	done := func(context.Context) error { return nil }
	hook := func(name string) func(context.Context) error {
		hooks := h.bootstrap.Hooks()
		return hooks[slices.IndexFunc(hooks, func(hook *bootstrap.Hook) bool { return hook.Name == name })].Check
	}
	var checks []telemetry.Check
	add := func(name string, run func(context.Context) error) {
		checks = append(checks, telemetry.Check{Name: name, Run: run})
	}
	add("poststarthook/start-apiserver-admission-initializer", done)
	add("poststarthook/generic-apiserver-start-informers", h.registrations)
	for _, name := range h.settings.env.Health.Hooks {
		add("poststarthook/"+name, done)
	}
	if h.settings.options.Requests.DisablePriorityAndFairness {
		add("poststarthook/max-in-flight-filter", done)
	} else {
		add("poststarthook/priority-and-fairness-config-consumer", func(context.Context) error { return h.loops.check(configurationObjects) })
		add("poststarthook/priority-and-fairness-filter", done)
	}
	add("poststarthook/start-apiextensions-informers", h.definitions)
	add("poststarthook/start-apiextensions-controllers", h.definitions)
	add("poststarthook/crd-informer-synced", h.definitions)
	add("poststarthook/start-system-namespaces-controller", hook("start-system-namespaces-controller"))
	add("poststarthook/start-cluster-authentication-info-controller", h.registrations)
	if h.settings.gates.Enabled(feature.APIServerIdentity) {
		add("poststarthook/start-kube-apiserver-identity-lease-controller", done) // later renewals are not checked
		add("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", done)
	}
	add("poststarthook/storage-readiness", done)
	for _, name := range []string{
		"start-legacy-token-tracking-controller", "rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes",
		"priority-and-fairness-config-producer", "bootstrap-controller", "start-kubernetes-service-cidr-controller",
	} {
		add("poststarthook/"+name, hook(name))
	}
	add("poststarthook/start-service-ip-repair-controllers", done) // not necessary: a service and its addresses are written in one transaction
	add("poststarthook/aggregator-reload-proxy-client-cert", done)
	for _, name := range []string{
		"start-kube-aggregator-informers", "apiservice-status-local-available-controller", "apiservice-status-remote-available-controller",
		"apiservice-registration-controller", "apiservice-wait-for-first-sync", "apiservice-discovery-controller", "kube-apiserver-autoregistration",
	} {
		add("poststarthook/"+name, h.registrations)
	}
	add("autoregister-completion", done)
	if h.storageVersions {
		add("poststarthook/"+bootstrap.StorageVersionsHook, hook(bootstrap.StorageVersionsHook))
	}
	add("poststarthook/apiservice-openapi-controller", h.registrations)
	add("poststarthook/apiservice-openapiv3-controller", h.registrations)
	return checks
}
