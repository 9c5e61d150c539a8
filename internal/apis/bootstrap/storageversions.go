package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// StorageVersionsHook is the name of the hook that reports storage versions.
const StorageVersionsHook = "built-in-resources-storage-version-updater"

// VersionsChanged requests a report of the storage versions before the next interval. It does
// nothing if they are not reported.
func (b *Bootstrap) VersionsChanged() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// reportVersions renews the identity lease first, because the versions of servers without a lease are
// removed. It also creates the role of the storage version garbage collector, which removes these versions in
// kube-controller-manager. As in kube-apiserver, the role exists only if this feature is enabled.
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
