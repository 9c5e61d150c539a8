// Package rootca publishes in each namespace, for its pods, by whom this server's
// certificate is signed, as kube-controller-manager's
// root-ca-certificate-publisher-controller does.
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
	// Name is that of the controller.
	Name = "root-ca-certificate-publisher-controller"
	// account is the service account that it writes as.
	account = "root-ca-cert-publisher"
	// configMap is the name of the created ConfigMaps.
	configMap = "kube-root-ca.crt"

	descriptionKey = "kubernetes.io/description"
	description    = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Config configures a Controller. All fields except Queues are required.
type Config struct {
	// Bundle returns the certificates to publish, as PEM.
	Bundle func() []byte
	// Stored are the stored ConfigMaps. Single ones are looked at, which is no reason
	// to have all of them in a watch cache.
	Stored storage.Interface
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Controller is the controller.
type Controller struct {
	logger *slog.Logger
	queues *work.Metrics
	bundle func() []byte
	stored storage.Interface
	access *loopback.Access
	maps   *loopback.Client[*corev1.ConfigMap]
}

// Registration returns the registration of the controller. It has no work without a serving CA.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		if d.Keys.ServingCA == nil {
			return nil, nil
		}
		stored, err := d.Stored(corev1.Resource("configmaps"))
		if err != nil {
			return nil, err
		}
		return New(Config{Bundle: d.Keys.ServingCA, Stored: stored, Access: d.Access, Logger: d.Logger, Queues: d.Queues}), nil
	}}
}

// New returns a controller that is not started.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		logger: config.Logger, queues: config.Queues, bundle: config.Bundle, stored: config.Stored,
		access: access,
		maps:   loopback.For[*corev1.ConfigMap](access, corev1.SchemeGroupVersion.WithResource("configmaps")),
	}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	return everynamespace.Start(ctx, everynamespace.Config{
		Name:    Name,
		Matters: func(c *changes.Change) bool { return c.Path == "configmaps" && c.Name == configMap },
		Keep:    c.keep, Access: c.access, Logger: c.logger, Queues: c.queues,
	})
}

// keep writes the config map of a namespace.
func (c *Controller) keep(ctx context.Context, namespace string) error {
	if err := c.write(ctx, types.NamespacedName{Namespace: namespace, Name: configMap}); err != nil {
		return fmt.Errorf("publish the root certificate in %s: %w", namespace, err)
	}
	return nil
}

func (c *Controller) write(ctx context.Context, name types.NamespacedName) error {
	data := map[string]string{"ca.crt": string(c.bundle())}
	record, err := c.stored.Get(ctx, name, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		_, err = c.maps.Create(ctx, &corev1.ConfigMap{
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
	_, err = c.maps.Update(ctx, name, func(m *corev1.ConfigMap) error {
		m.Data = data
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[descriptionKey] = description
		return nil
	})
	return err
}
