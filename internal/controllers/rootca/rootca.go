// Package rootca publishes the CA certificates of this server in a ConfigMap in each namespace, for the pods in
// the namespace. It implements kube-controller-manager's root-ca-certificate-publisher-controller.
package rootca

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/everynamespace"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is the name of the controller.
	Name = "root-ca-certificate-publisher-controller"
	// account is the name of its service account.
	account = "root-ca-cert-publisher"
	// configMapName is the name of the ConfigMap in each namespace.
	configMapName = "kube-root-ca.crt"

	descriptionKey = "kubernetes.io/description"
	description    = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Config configures a Controller. All fields except QueueMetrics are required.
type Config struct {
	// Bundle returns the certificates to publish, as PEM.
	Bundle func() []byte
	// Storage reads ConfigMaps. It has no watch cache, because only individual ConfigMaps are read.
	Storage storage.Interface
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller implements root-ca-certificate-publisher-controller. It starts no goroutine before
// Start.
type Controller struct {
	logger       *slog.Logger
	queueMetrics *work.Metrics
	bundle       func() []byte
	storage      storage.Interface
	access       *loopback.Access
	configMaps   *loopback.Client[*corev1.ConfigMap]
}

// Registration returns the registration of the controller. The controller is disabled if there is no serving
// CA.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		if d.Keys.ServingCA == nil {
			return nil, nil
		}
		stored, err := d.OpenStorage(corev1.Resource("configmaps"))
		if err != nil {
			return nil, err
		}
		return New(Config{Bundle: d.Keys.ServingCA, Storage: stored, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		logger: config.Logger, queueMetrics: config.QueueMetrics, bundle: config.Bundle, storage: config.Storage,
		access:     access,
		configMaps: loopback.For[*corev1.ConfigMap](access, corev1.SchemeGroupVersion.WithResource("configmaps")),
	}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	return everynamespace.Start(ctx, everynamespace.Config{
		Name:       Name,
		IsRelevant: func(c *changes.Change) bool { return c.Path == "configmaps" && c.Name == configMapName },
		Reconcile:  c.reconcile, Access: c.access, Logger: c.logger, QueueMetrics: c.queueMetrics,
	})
}

// reconcile creates or updates the ConfigMap of a namespace.
func (c *Controller) reconcile(ctx context.Context, namespace string) error {
	if err := c.write(ctx, types.NamespacedName{Namespace: namespace, Name: configMapName}); err != nil {
		return fmt.Errorf("publish the root certificate in %s: %w", namespace, err)
	}
	return nil
}

func (c *Controller) write(ctx context.Context, name types.NamespacedName) error {
	data := map[string]string{"ca.crt": string(c.bundle())}
	record, err := c.storage.Get(ctx, name, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		_, err = c.configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Annotations: map[string]string{descriptionKey: description}},
			Data:       data,
		})
		return err
	}
	if err != nil {
		return err
	}
	current, err := codec.SharedAs[*corev1.ConfigMap](record)
	if err != nil || maps.Equal(current.Data, data) && current.Annotations[descriptionKey] != "" { // another description is accepted
		return err
	}
	_, err = c.configMaps.Update(ctx, name, func(m *corev1.ConfigMap) error {
		m.Data = data
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[descriptionKey] = description
		return nil
	})
	return err
}
