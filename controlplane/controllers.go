package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/controllers/clusterroles"
	"mainstay.dev/mainstay/controllers/flowschemas"
	"mainstay.dev/mainstay/storage"
)

// Controllers returns the names of the controllers that can run in the server, which
// are kube-controller-manager's.
func Controllers() []string { return []string{clusterroles.Name, policyStatus} }

// policyStatus is the controller that checks the types of policies' expressions. Here that
// is done when a policy is written; one of kube-controller-manager finds nothing to do.
const policyStatus = "validatingadmissionpolicy-status-controller"

func (o Options) checkControllers() error {
	var errs []error
	for _, name := range o.Controllers {
		if name != "*" && !slices.Contains(Controllers(), strings.TrimPrefix(name, "-")) {
			errs = append(errs, fmt.Errorf("--controllers: there is no controller %q in this server, only %s", name, strings.Join(Controllers(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// runs reports whether a controller is to run.
func (o Options) runs(name string) bool {
	return len(o.Controllers) == 0 || slices.Contains(o.Controllers, name) ||
		slices.Contains(o.Controllers, "*") && !slices.Contains(o.Controllers, "-"+name)
}

// openControllers creates the controllers that run in the server.
func (i *instance) openControllers() error {
	i.conditions = flowschemas.New(i.lifetime, i.local, i.env.Logger)
	if !i.options.runs(clusterroles.Name) {
		return nil
	}
	roles, err := i.uncached(rbacv1.Resource("clusterroles"))
	if err != nil {
		return err
	}
	i.aggregation, err = clusterroles.New(clusterroles.Config{
		Stored: roles, Access: i.local, Logger: i.env.Logger, Metrics: i.env.Metrics.Reflectors,
	})
	return err
}

// controllerLease is what kube-controller-manager holds while it runs.
const controllerLease = "kube-controller-manager"

// controllersRun reports whether a kube-controller-manager runs, as far as its
// lease shows. Where that cannot be read it is taken to run.
func (i *instance) controllersRun(ctx context.Context) bool {
	record, err := i.leases.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: controllerLease}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return false
	}
	if err != nil {
		return true
	}
	lease, err := codec.SharedAs[*coordinationv1.Lease](record)
	if err != nil {
		return true
	}
	spec := &lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	return time.Now().Before(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second))
}
