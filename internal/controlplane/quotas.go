package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/resourcequotas"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// resourceQuota is the name of the admission plugin that enforces quotas. Writes are charged only if the plugin
// is enabled.
const resourceQuota = "ResourceQuota"

// newQuotas configures the ledger of quota charges, and returns the reflectors that keep it up to date.
func newQuotas(s *settings, ledger *quota.Ledger, builtin *builtinResources, api *endpoints.API, controllers *controllerSet) (reflectors, error) {
	stored, err := builtin.observed(quota.Resource(), ledger.Observer())
	if err != nil {
		return nil, err
	}
	ledger.Configure(quota.Config{
		Stored: stored, RecordOwnership: quotaOwner(builtin, api), Limited: limitedResources(s), Logger: s.env.Telemetry.Logger, Metrics: s.reflectorMetrics(),
		WrapDenied: func(err error) error { return &admission.RejectionError{Plugin: resourceQuota, Err: err} },
	})
	if err := builtin.storage.observers.addWritten(quota.Resource(), ledger.Observer()); err != nil {
		return nil, err
	}
	// The ledger locks a quota while it is written, so the recount must start after the charge.
	recounter := &quotaRecounter{settings: s, controllers: controllers}
	if err := builtin.storage.observers.addCharged(quota.Resource(), &storage.Observer{Written: recounter.written}); err != nil {
		return nil, err
	}
	follower, err := ledger.Reflector()
	return reflectors{follower}, err
}

// limitedResources returns the limited resources in the plugin's configuration.
func limitedResources(s *settings) []quota.Limited {
	var all []quota.Limited
	for _, l := range s.options.Admission.Config.ResourceQuota.LimitedResources {
		all = append(all, quota.Limited{
			Resource: schema.GroupResource{Group: l.APIGroup, Resource: l.Resource}, Contains: l.MatchContains, Scopes: l.MatchScopes,
		})
	}
	return all
}

// quotaOwner returns the function that makes the server the field manager of a changed quota status.
// It changes the managed fields only if the server does not own all changed fields yet.
func quotaOwner(builtin *builtinResources, api *endpoints.API) func(live, changed *corev1.ResourceQuota) (codec.Object, error) {
	return func(live, changed *corev1.ResourceQuota) (codec.Object, error) {
		status := builtin.static.Find(corev1.SchemeGroupVersion, quota.Resource().Resource, "status")
		if status == nil || ownsChangedUsage(live, changed) {
			return changed, nil
		}
		return api.RecordOwnership(status, live, changed, manager)
	}
}

// ownsChangedUsage reports whether the server is the field manager of all changed usage values of a
// quota.
func ownsChangedUsage(live, changed *corev1.ResourceQuota) bool {
	for f := range live.ManagedFields {
		entry := &live.ManagedFields[f]
		if entry.Manager != manager || entry.Subresource != "status" || entry.FieldsV1 == nil {
			continue
		}
		for name, used := range changed.Status.Used {
			if used.Cmp(live.Status.Used[name]) != 0 && !bytes.Contains(entry.FieldsV1.Raw, []byte(`"f:`+name+`":`)) {
				return false
			}
		}
		return true
	}
	return false
}

// quotaRecounter counts the usage of written quotas before the writer receives its response.
type quotaRecounter struct {
	settings    *settings
	controllers *controllerSet
}

// recountTimeout is the maximum time that the writer of a quota waits for the count.
const recountTimeout = 10 * time.Second

// written implements storage.Observer.Written. It never returns an error, because the write has already
// succeeded. After a failure, the controller counts the usage later.
func (q *quotaRecounter) written(record *codec.Record) error {
	written, err := codec.SharedAs[*corev1.ResourceQuota](record)
	counter := controllerOf[*resourcequotas.Controller](q.controllers)
	if err != nil || resourcequotas.IsUpToDate(written) || counter == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.settings.lifetime, recountTimeout)
	defer cancel()
	if q.controllers.manager.running(ctx) && !q.settings.options.Controllers.named(resourcequotas.Name) {
		return nil
	}
	if err := counter.Recount(ctx, record.Name()); err != nil && ctx.Err() == nil {
		q.settings.env.Telemetry.Logger.Debug("the usage of a new quota is counted later", "name", record.Name(), "err", err)
	}
	return nil
}

// newQuotaLister returns the function that lists the objects of a resource to count their usage. For unknown
// and cluster-scoped resources, the function returns nil.
func newQuotaLister(resources *storedResources) quota.ListFunc {
	return func(ctx context.Context, resource schema.GroupResource, namespace string) (*rest.List, error) {
		r, ok := resources.ByName(resource)
		if !ok || !r.Namespaced {
			return nil, nil
		}
		lister, ok := r.Storage.(rest.Lister)
		if !ok {
			return nil, fmt.Errorf("%s cannot be listed", r.FullName())
		}
		return lister.List(ctx, namespace, rest.ListOptions{})
	}
}
