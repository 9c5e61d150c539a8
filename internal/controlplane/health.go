package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry"
)

var errEnded = errors.New("it has ended")

// loop is the health of a loop of a control plane, which must run for as long as
// the control plane serves.
type loop struct{ ended atomic.Bool }

// run calls work and records when it returns.
func (l *loop) run(work func() error) error {
	defer l.ended.Store(true)
	return work()
}

// check returns nil unless the loop has ended.
func (l *loop) check(context.Context) error {
	if l.ended.Load() {
		return errEnded
	}
	return nil
}

// checks returns the health checks by path, under kube-apiserver's names and in its
// order. Checks of features that this server does not have are left out:
// loopback-serving-certificate and the hooks of address repair, peer proxies, object
// counts and admission's informers.
func (i *instance) checks() map[string][]telemetry.Check {
	hooks := i.postStartHooks()
	live := slices.Concat([]telemetry.Check{telemetry.Ping()}, i.options.Checks, i.env.Live)
	live = append(live, alive(storageCheck("etcd", "", i.env.Backend, i.options.EtcdHealthTimeout)))
	ready := append(slices.Clone(live), storageCheck("etcd-readiness", "", i.env.Backend, i.options.EtcdReadyTimeout))
	for n, o := range i.env.Overrides {
		check := alive(storageCheck(fmt.Sprintf("etcd-override-%d", n), "etcd", o.Backend, i.options.EtcdHealthTimeout))
		live = append(live, check)
		ready = append(ready, check, storageCheck(fmt.Sprintf("etcd-override-readiness-%d", n), "etcd-readiness", o.Backend, i.options.EtcdReadyTimeout))
	}
	ready = append(ready, i.env.StorageChecks...)
	ready = append(ready, telemetry.Check{Name: "informer-sync", Run: i.informersRunning})
	ready = append(ready, hooks...)
	for _, hook := range hooks {
		live = append(live, alive(hook))
	}
	ready = append(ready, i.env.Ready...)
	return map[string][]telemetry.Check{"/healthz": slices.Concat(live, i.env.StorageChecks), "/livez": live, "/readyz": ready}
}

func storageCheck(name, group string, backend kv.Backend, timeout time.Duration) telemetry.Check {
	return telemetry.Check{Name: name, Group: group, Run: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return backend.Health(ctx)
	}}
}

// informersRunning returns nil while the reflectors of roles, flow schemas, definitions and registrations
// run; they are loaded before that.
func (i *instance) informersRunning(ctx context.Context) error {
	return errors.Join(i.rightsLoop.check(ctx), i.flowLoop.check(ctx), i.webhooksLoop.check(ctx), i.policiesLoop.check(ctx), i.customLoop.check(ctx), i.aggregatedLoop.check(ctx))
}

// postStartHooks returns the checks of the post-start hooks. Several of
// kube-apiserver's are one loop here.
func (i *instance) postStartHooks() []telemetry.Check {
	definitions, registrations := i.customLoop.check, i.aggregatedLoop.check
	// Hooks that are done before the server serves.
	done := func(context.Context) error { return nil }
	hook := func(name string) func(context.Context) error {
		at := slices.IndexFunc(i.cluster.Hooks(), func(h *bootstrap.Hook) bool { return h.Name == name })
		return i.cluster.Hooks()[at].Check
	}
	var checks []telemetry.Check
	add := func(name string, run func(context.Context) error) {
		checks = append(checks, telemetry.Check{Name: name, Run: run})
	}
	add("poststarthook/start-apiserver-admission-initializer", done)
	add("poststarthook/generic-apiserver-start-informers", registrations)
	for _, name := range i.env.Hooks {
		add("poststarthook/"+name, done)
	}
	if i.options.WithoutPriorityAndFairness {
		add("poststarthook/max-in-flight-filter", done)
	} else {
		add("poststarthook/priority-and-fairness-config-consumer", i.flowLoop.check)
		add("poststarthook/priority-and-fairness-filter", done)
	}
	add("poststarthook/start-apiextensions-informers", definitions)
	add("poststarthook/start-apiextensions-controllers", definitions)
	add("poststarthook/crd-informer-synced", definitions)
	add("poststarthook/start-system-namespaces-controller", hook("start-system-namespaces-controller"))
	add("poststarthook/start-cluster-authentication-info-controller", registrations)
	if i.options.Gates().Enabled(feature.APIServerIdentity) {
		add("poststarthook/start-kube-apiserver-identity-lease-controller", done) // later renewals are not checked
		add("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", done)
	}
	add("poststarthook/storage-readiness", done)
	for _, h := range []string{
		"start-legacy-token-tracking-controller", "rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes",
		"priority-and-fairness-config-producer", "bootstrap-controller", "start-kubernetes-service-cidr-controller",
	} {
		add("poststarthook/"+h, hook(h))
	}
	add("poststarthook/start-service-ip-repair-controllers", done) // addresses are allocated in the transaction of a service
	add("poststarthook/aggregator-reload-proxy-client-cert", done)
	for _, h := range []string{
		"start-kube-aggregator-informers", "apiservice-status-local-available-controller", "apiservice-status-remote-available-controller",
		"apiservice-registration-controller", "apiservice-wait-for-first-sync", "apiservice-discovery-controller", "kube-apiserver-autoregistration",
	} {
		add("poststarthook/"+h, registrations)
	}
	add("autoregister-completion", done)
	if i.storageVersions != nil {
		add("poststarthook/"+bootstrap.StorageVersionsHook, hook(bootstrap.StorageVersionsHook))
	}
	add("poststarthook/apiservice-openapi-controller", registrations)
	add("poststarthook/apiservice-openapiv3-controller", registrations)
	return checks
}
