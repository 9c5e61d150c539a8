package operator

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const finalizer = "web.example.com/dns"

// reconciler creates the objects of sites. dns simulates a resource outside of the cluster, which must be
// removed before the finalizer.
type reconciler struct {
	client.Client
	dns *dns
}

// dns maps domains to the names of sites.
type dns struct {
	mu      sync.Mutex
	records map[string]string
}

func (d *dns) set(domain, site string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if site == "" {
		delete(d.records, domain)
		return
	}
	d.records[domain] = site
}

func (d *dns) get(domain string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[domain]
}

// setUp registers do as the reconciler. do is r itself or a wrapper of r.
func (r *reconciler) setUp(mgr ctrl.Manager, do reconcile.Reconciler) error {
	anyName := true // managers of several tests run in one process
	err := ctrl.NewControllerManagedBy(mgr).
		For(&Site{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{SkipNameValidation: &anyName, MaxConcurrentReconciles: 4}).
		Complete(do)
	if err != nil {
		return fmt.Errorf("build the controller: %w", err)
	}
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, site)
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.dns.set(site.Spec.Domain, site.Name)
	if err := r.keepPages(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	deployment, err := r.keepDeployment(ctx, site)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, site, deployment)
}

func (r *reconciler) finalize(ctx context.Context, site *Site) error {
	r.dns.set(site.Spec.Domain, "")
	if !controllerutil.RemoveFinalizer(site, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.Update(ctx, site))
}

func (r *reconciler) keepPages(ctx context.Context, site *Site) error {
	pages := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name + "-pages", Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, pages, func() error {
		pages.Data = map[string]string{}
		for i, page := range site.Spec.Pages {
			pages.Data[fmt.Sprintf("%d.html", i)] = page.Path + "\n" + page.Text
		}
		return controllerutil.SetControllerReference(site, pages, r.Scheme())
	})
	return err
}

func (r *reconciler) keepDeployment(ctx context.Context, site *Site) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	labels := map[string]string{"site": site.Name}
	_, err := controllerutil.CreateOrPatch(ctx, r.Client, deployment, func() error {
		deployment.Spec.Replicas = site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "registry.example.com/web:1"}}
		return controllerutil.SetControllerReference(site, deployment, r.Scheme())
	})
	return deployment, err
}

func (r *reconciler) report(ctx context.Context, site *Site, deployment *appsv1.Deployment) error {
	before := site.DeepCopyObject().(*Site)
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Waiting", ObservedGeneration: site.Generation,
		Message: fmt.Sprintf("%d of %d replicas are ready", deployment.Status.ReadyReplicas, *site.Spec.Replicas)}
	if deployment.Status.ReadyReplicas == *site.Spec.Replicas {
		ready.Status, ready.Reason = metav1.ConditionTrue, "AsWanted"
	}
	meta.SetStatusCondition(&site.Status.Conditions, ready)
	site.Status.ObservedGeneration = site.Generation
	site.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	site.Status.Selector = "site=" + site.Name
	return r.Status().Patch(ctx, site, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
