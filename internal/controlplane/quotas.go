package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/resourcequotas"
	"mainstay.dev/mainstay/internal/registry/quota"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// resourceQuota is the admission plugin that enforces quotas. Writes are charged only if it is on.
const resourceQuota = "ResourceQuota"

// charges reports whether writes are charged to quotas.
func (i *instance) charges() bool {
	for _, p := range admissionPlugins() {
		if p.name == resourceQuota {
			return i.options.has(p)
		}
	}
	return false
}

// openNamespaced opens the storage of a resource. Writes of namespaced resources are charged to
// quotas.
func (i *instance) openNamespaced(spec storage.Spec) (storage.Interface, error) {
	opened, err := i.factory.Open(spec)
	if err != nil || !spec.Namespaced {
		return opened, err
	}
	if i.charges() {
		opened = i.quotas.Account(spec.Resource, opened)
	}
	if spec.Resource == quota.Resource() { // outside the account, which is locked while it writes
		opened = storage.Observed(opened, &storage.Observer{Written: i.countQuota})
	}
	return opened, nil
}

// openQuotas opens the account of quotas, once the resources are there.
func (i *instance) openQuotas() error {
	spec := i.rows.Spec(quota.Resource())
	spec.Uncached, spec.Observer = true, i.quotas.Observer()
	stored, err := i.factory.Open(spec)
	if err != nil {
		return err
	}
	i.quotas.Open(quota.Config{
		Stored: stored, RecordOwnership: i.ownUse, Limited: i.limitedResources(), Logger: i.env.Logger, Metrics: i.env.Metrics.Reflectors,
		WrapDenied: func(err error) error { return &admission.RejectionError{Plugin: resourceQuota, Err: err} },
	})
	i.quotaReflector, err = i.quotas.Reflector()
	return err
}

// limitedResources returns the limited resources of the plugin's configuration.
func (i *instance) limitedResources() []quota.Limited {
	var all []quota.Limited
	for _, l := range i.options.AdmissionConfig.ResourceQuota.LimitedResources {
		all = append(all, quota.Limited{
			Resource: schema.GroupResource{Group: l.APIGroup, Resource: l.Resource}, Contains: l.MatchContains, Scopes: l.MatchScopes,
		})
	}
	return all
}

// ownUse records a usage update by the server. Field ownership of the quota changes at the first
// one only.
func (i *instance) ownUse(live, changed *corev1.ResourceQuota) (codec.Object, error) {
	if ownsUse(live, changed) {
		return changed, nil
	}
	status := i.static.Find(corev1.SchemeGroupVersion, quota.Resource().Resource, "status")
	if status == nil {
		return changed, nil
	}
	return i.api.RecordOwnership(status, live, changed, manager)
}

// ownsUse reports whether all that has changed of the use of a quota is the server's.
func ownsUse(live, changed *corev1.ResourceQuota) bool {
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

// countQuota counts a written quota before the response, if this server counts quotas.
func (i *instance) countQuota(record *codec.Record) error {
	if q, err := codec.SharedAs[*corev1.ResourceQuota](record); err == nil && !resourcequotas.Counted(q) {
		i.recount(record.Name())
	}
	return nil
}

// recountPatience bounds how long the writer of a quota waits for the count.
const recountPatience = 10 * time.Second

// recount counts the usage of a quota. The write that requires it has succeeded, so errors are not
// returned to the writer: the controller retries.
func (i *instance) recount(name types.NamespacedName) {
	ctx, cancel := context.WithTimeout(i.lifetime, recountPatience)
	defer cancel()
	if i.quotaCounts == nil || i.controllersRun(ctx) && !i.options.runsBeside(resourcequotas.Name) {
		return
	}
	if err := i.quotaCounts.Recount(ctx, name); err != nil && ctx.Err() == nil {
		i.env.Logger.Debug("a new quota is counted later", "name", name, "err", err)
	}
}

// openResourceQuotas opens the controller.
func (i *instance) openResourceQuotas() error {
	i.quotaCounts = resourcequotas.New(resourcequotas.Config{
		Ledger: i.quotas, List: i.listNow, Resource: i.stored.ofPath, Access: i.local, Logger: i.env.Logger,
	})
	i.add(resourcequotas.Name, i.quotaCounts)
	return nil
}

// listNow implements quota.ListFunc.
func (i *instance) listNow(ctx context.Context, resource schema.GroupResource, namespace string) (*rest.List, error) {
	r, ok := i.stored.ofResource(resource)
	if !ok || !r.Namespaced {
		return nil, nil
	}
	lister, ok := r.Storage.(rest.Lister)
	if !ok {
		return nil, fmt.Errorf("%s cannot be listed", r.FullName())
	}
	return lister.List(ctx, namespace, rest.ListOptions{})
}
