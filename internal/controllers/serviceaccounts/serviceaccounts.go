// Package serviceaccounts creates the default service account of each namespace, like kube-controller-manager's
// serviceaccount-controller.
package serviceaccounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/everynamespace"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is the name of the controller.
	Name = "serviceaccount-controller"
	// account is the name of its service account.
	account = "service-account-controller"
	// defaultName is the name of the service account in each namespace.
	defaultName = "default"
)

// Config configures a Controller. All fields except QueueMetrics are required.
type Config struct {
	// Storage reads ServiceAccounts. It has no watch cache, because only individual service accounts are read.
	Storage storage.Interface
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller implements serviceaccount-controller. It starts no goroutine before Start. Ensure is
// safe for concurrent use.
type Controller struct {
	logger       *slog.Logger
	queueMetrics *work.Metrics
	storage      storage.Interface
	access       *loopback.Access
	accounts     *loopback.Client[*corev1.ServiceAccount]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		stored, err := d.OpenStorage(corev1.Resource("serviceaccounts"))
		if err != nil {
			return nil, err
		}
		return New(Config{Storage: stored, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		logger: config.Logger, queueMetrics: config.QueueMetrics, storage: config.Storage,
		access:   access,
		accounts: loopback.For[*corev1.ServiceAccount](access, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
	}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	return everynamespace.Start(ctx, everynamespace.Config{
		Name: Name,
		IsRelevant: func(c *changes.Change) bool {
			return c.Path == "serviceaccounts" && c.Name == defaultName && c.Value == nil
		},
		Reconcile: c.reconcile, Access: c.access, Logger: c.logger, QueueMetrics: c.queueMetrics,
	})
}

// reconcile creates the default service account of a namespace if it is missing.
func (c *Controller) reconcile(ctx context.Context, namespace string) error {
	_, err := c.storage.Get(ctx, types.NamespacedName{Namespace: namespace, Name: defaultName}, storage.ReadOptions{})
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return c.Ensure(ctx, namespace)
}

// Ensure creates the default service account of a namespace. It also returns nil if the account exists, or if
// the namespace is missing or terminating. It returns all other errors.
func (c *Controller) Ensure(ctx context.Context, namespace string) error {
	_, err := c.accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: defaultName}})
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the default service account of %s: %w", namespace, err)
	}
	return nil
}
