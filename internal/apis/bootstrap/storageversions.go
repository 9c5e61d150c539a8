package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// StorageVersionsHook is the name of the hook that reports storage versions.
const StorageVersionsHook = "built-in-resources-storage-version-updater"

// VersionsChanged makes Run report the storage versions now instead of in the next round. It does not block. It
// does nothing if storage versions are not reported.
func (b *Bootstrap) VersionsChanged() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// reportVersions reports the storage versions. It first renews the identity lease, because
// kube-controller-manager's storage version garbage collector removes the versions of servers without a lease.
// It also creates the role of that controller. As in kube-apiserver, the role exists only if storage versions
// are reported.
func (b *Bootstrap) reportVersions(ctx context.Context) error {
	if err := b.identity.keep(ctx); err != nil {
		return err
	}
	roles := clusterSets(grants([]controllerRole{{"storage-version-garbage-collector", []rbacv1.PolicyRule{
		allow("get list watch", "coordination.k8s.io", "leases"),
		allow("delete get list patch update watch", "internal.apiserver.k8s.io", "storageversions"),
		allow("get patch update", "internal.apiserver.k8s.io", "storageversions/status"),
	}}}))
	if err := b.ensure(ctx, roles...); err != nil {
		return fmt.Errorf("create the role of the storage version garbage collector: %w", err)
	}
	return b.config.ReportVersions(ctx)
}
