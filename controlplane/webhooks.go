package controlplane

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/admission/webhooks"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/feature"
	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/reflector"
	"mainstay.dev/mainstay/webhook"
)

// admissionWebhooks are the plugins that ask webhooks, and what keeps them up to date.
type admissionWebhooks struct {
	mutating   *webhooks.Mutating
	validating *webhooks.Validating

	mutatingObjects   *reflector.Objects[*admissionregistrationv1.MutatingWebhookConfiguration]
	validatingObjects *reflector.Objects[*admissionregistrationv1.ValidatingWebhookConfiguration]
	follow            []*reflector.Reflector
}

// The resources that configure webhooks.
var (
	mutatingWebhooks   = schema.GroupResource{Group: admissionregistrationv1.GroupName, Resource: "mutatingwebhookconfigurations"}
	validatingWebhooks = schema.GroupResource{Group: admissionregistrationv1.GroupName, Resource: "validatingwebhookconfigurations"}
)

// openWebhooks creates the plugins that ask webhooks.
func (i *instance) openWebhooks() error {
	config := webhooks.Config{
		Clients: &webhook.Clients{Resolver: i.services}, Namespaces: namespaces(i),
		Reviews: !i.rows.Gates.Enabled(feature.ExcludeAdmissionWebhookVirtualResources),
		Metrics: i.env.Metrics.Webhooks, Logger: i.env.Logger,
	}
	w := &admissionWebhooks{mutating: webhooks.NewMutating(config), validating: webhooks.NewValidating(config)}
	w.mutatingObjects, w.validatingObjects = w.mutating.Objects(), w.validating.Objects()
	i.webhooks = w
	for _, kind := range []struct {
		resource schema.GroupResource
		objects  interface {
			Reflector(reflector.Collection, *reflector.Metrics) (*reflector.Reflector, error)
		}
	}{{mutatingWebhooks, w.mutatingObjects}, {validatingWebhooks, w.validatingObjects}} {
		stored, err := i.uncached(kind.resource)
		if err != nil {
			return err
		}
		follow, err := kind.objects.Reflector(stored, i.env.Metrics.Reflectors)
		if err != nil {
			return err
		}
		w.follow = append(w.follow, follow)
	}
	return nil
}

// load reads all configurations.
func (w *admissionWebhooks) load(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range w.follow {
		group.Go(func() error { return follow.Load(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("load the configurations of admission webhooks: %w", err)
	}
	return nil
}

// run takes up what other servers write.
func (w *admissionWebhooks) run(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range w.follow {
		group.Go(func() error { follow.Run(ctx); return nil })
	}
	return group.Wait()
}

// observeWebhooks has the writes of configurations in effect when they return; nil for
// other resources. The plugins are there before anything is written.
func (i *instance) observeWebhooks(resource schema.GroupResource) *storage.Observer {
	objects := func() writes { return i.webhooks.mutatingObjects }
	switch resource {
	case mutatingWebhooks:
	case validatingWebhooks:
		objects = func() writes { return i.webhooks.validatingObjects }
	default:
		return nil
	}
	return &storage.Observer{
		Written: func(record *codec.Record) error { return objects().Written(record) },
		Deleted: func(name types.NamespacedName, revision int64) { objects().Deleted(name, revision) },
	}
}

// writes is told of the writes of this server.
type writes interface {
	Written(*codec.Record) error
	Deleted(name types.NamespacedName, revision int64)
}
