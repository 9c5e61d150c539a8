package controlplane

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/serviceaccounts"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// managerLease is the name of the lease of a running kube-controller-manager.
const managerLease = "kube-controller-manager"

// controllerManager detects a running kube-controller-manager by its lease.
type controllerManager struct {
	leases   storage.Interface // without a watch cache
	accounts *loopback.Client[*corev1.ServiceAccount]
}

func newControllerManager(access *loopback.Access, builtin *builtinResources) (*controllerManager, error) {
	leases, err := builtin.uncached(coordinationv1.Resource("leases"))
	if err != nil {
		return nil, err
	}
	accounts := loopback.For[*corev1.ServiceAccount](access, corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
	return &controllerManager{leases: leases, accounts: accounts}, nil
}

// unreadableLeaseDuration is the assumed remaining duration of an unreadable lease.
const unreadableLeaseDuration = 15 * time.Second

// running reports whether a kube-controller-manager is running. If the lease is unreadable, it returns true.
func (m *controllerManager) running(ctx context.Context) bool {
	return time.Now().Before(m.leaseExpiry(ctx))
}

// leaseExpiry returns the expiration time of the lease, or the zero time if the lease has no holder. If the
// lease is unreadable, it assumes that a kube-controller-manager holds it.
func (m *controllerManager) leaseExpiry(ctx context.Context) time.Time {
	unknown := time.Now().Add(unreadableLeaseDuration)
	record, err := m.leases.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: managerLease}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return time.Time{}
	}
	if err != nil {
		return unknown
	}
	lease, err := codec.SharedAs[*coordinationv1.Lease](record)
	if err != nil {
		return unknown
	}
	spec := &lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
}

// accountTimeout is the maximum time for which the creation of a pod waits until a kube-controller-manager has
// created the default service account. It is the same as in kube-apiserver.
const accountTimeout = 1500 * time.Millisecond

// provideAccount implements plugin.Dependencies.ProvideAccount. It creates the default service account of a
// namespace, or waits until a running kube-controller-manager has created it.
func (c *controllerSet) provideAccount(ctx context.Context, namespace string) {
	if accounts := controllerOf[*serviceaccounts.Controller](c); accounts != nil {
		_ = accounts.Ensure(ctx, namespace) // after an error, the account is missing and the plugin rejects the pod
		return
	}
	if !c.manager.running(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	accounts, err := c.manager.accounts.Collection()
	if err != nil {
		return
	}
	w, err := accounts.Watch(ctx, namespace, rest.ListOptions{Fields: fields.OneTermEqualSelector("metadata.name", "default")})
	if err != nil {
		return
	}
	defer w.Close()
	_, _ = w.Next(ctx)
}
