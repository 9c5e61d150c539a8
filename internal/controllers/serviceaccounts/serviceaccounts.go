// Package serviceaccounts creates the default service account of each namespace, as
// kube-controller-manager's serviceaccount-controller does.
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
	// Name is that of the controller.
	Name = "serviceaccount-controller"
	// account is the service account that it writes as.
	account = "service-account-controller"
	// defaultName is that of the accounts that it creates.
	defaultName = "default"
)

// Config configures a Controller. All fields except Queues are required.
type Config struct {
	// Stored are the stored ServiceAccounts. Single ones are looked at, which is no
	// reason to have all of them in a watch cache.
	Stored storage.Interface
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Controller is the controller. Ensure may be called at any time, by any goroutine.
type Controller struct {
	logger   *slog.Logger
	queues   *work.Metrics
	stored   storage.Interface
	access   *loopback.Access
	accounts *loopback.Client[*corev1.ServiceAccount]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		stored, err := d.Stored(corev1.Resource("serviceaccounts"))
		if err != nil {
			return nil, err
		}
		return New(Config{Stored: stored, Access: d.Access, Logger: d.Logger, Queues: d.Queues}), nil
	}}
}

// New returns a controller that is not started.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		logger: config.Logger, queues: config.Queues, stored: config.Stored,
		access:   access,
		accounts: loopback.For[*corev1.ServiceAccount](access, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
	}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	return everynamespace.Start(ctx, everynamespace.Config{
		Name: Name,
		Matters: func(c *changes.Change) bool {
			return c.Path == "serviceaccounts" && c.Name == defaultName && c.Value == nil
		},
		Keep: c.keep, Access: c.access, Logger: c.logger, Queues: c.queues,
	})
}

// keep creates the missing service account of a namespace.
func (c *Controller) keep(ctx context.Context, namespace string) error {
	_, err := c.stored.Get(ctx, types.NamespacedName{Namespace: namespace, Name: defaultName}, storage.ReadOptions{})
	if !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return c.Ensure(ctx, namespace)
}

// Ensure creates the default account of a namespace, unless it is there or the
// namespace is going away.
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
