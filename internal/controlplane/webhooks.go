package controlplane

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/egress/webhook"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// admissionWebhooks are the webhook plugins and their reflectors.
type admissionWebhooks struct {
	mutating   *webhooks.Mutating
	validating *webhooks.Validating
	follow     followers

	mutatingObjects   *reflector.Objects[*admissionregistrationv1.MutatingWebhookConfiguration]
	validatingObjects *reflector.Objects[*admissionregistrationv1.ValidatingWebhookConfiguration]
}

// Names of the resources that configure webhooks.
const (
	mutatingWebhooks   = "mutatingwebhookconfigurations"
	validatingWebhooks = "validatingwebhookconfigurations"
)

// openWebhooks creates the plugins that ask webhooks.
func (i *instance) openWebhooks() error {
	config := webhooks.Config{
		Namespaces: namespaces(i),
		Compile: func(conditions []admissionregistrationv1.MatchCondition, ignore bool) webhooks.Conditions {
			return i.policies.config.Conditions(conditions, ignore)
		},
		Reviews: !i.rows.Gates.Enabled(feature.ExcludeAdmissionWebhookVirtualResources),
		Metrics: i.env.Metrics.Webhooks, Report: i.reportWebhook, Logger: i.env.Logger,
	}
	w, files := &admissionWebhooks{}, i.options.AdmissionConfig
	var err error
	if config.Clients, err = i.webhookClients(files.MutatingAdmissionWebhook.KubeConfigFile); err != nil {
		return fmt.Errorf("MutatingAdmissionWebhook: %w", err)
	}
	w.mutating = webhooks.NewMutating(config)
	if config.Clients, err = i.webhookClients(files.ValidatingAdmissionWebhook.KubeConfigFile); err != nil {
		return fmt.Errorf("ValidatingAdmissionWebhook: %w", err)
	}
	w.validating = webhooks.NewValidating(config)
	w.mutatingObjects, w.validatingObjects = w.mutating.Objects(), w.validating.Objects()
	i.addManifests(w.mutating, files.MutatingAdmissionWebhook.StaticManifestsDir, admissionregistrationv1.Resource(mutatingWebhooks))
	i.addManifests(w.validating, files.ValidatingAdmissionWebhook.StaticManifestsDir, admissionregistrationv1.Resource(validatingWebhooks))
	i.webhooks = w
	reflectorOf := func(resource schema.GroupResource, stored reflector.Collection, metrics *reflector.Metrics) (*reflector.Reflector, error) {
		if resource.Resource == mutatingWebhooks {
			return w.mutatingObjects.Reflector(stored, metrics)
		}
		return w.validatingObjects.Reflector(stored, metrics)
	}
	for _, resource := range []string{mutatingWebhooks, validatingWebhooks} {
		if err := i.follow(&w.follow, admissionregistrationv1.Resource(resource), reflectorOf); err != nil {
			return err
		}
	}
	return nil
}

// webhookClients returns connections to webhooks with the credentials of a kubeconfig; "" without
// credentials.
func (i *instance) webhookClients(file string) (*webhook.Clients, error) {
	clients := &webhook.Clients{Resolver: i.services, Networks: i.networks()}
	if file == "" {
		return clients, nil
	}
	var err error
	clients.Users, err = kubeconfig.ReadUsers(file)
	return clients, err
}

// observeWebhooks has the writes of configurations in effect when they return; nil for
// other resources. The plugins are there before anything is written.
func (i *instance) observeWebhooks(resource schema.GroupResource) *storage.Observer {
	switch resource {
	case admissionregistrationv1.Resource(mutatingWebhooks):
		return lateObserver(func() *storage.Observer {
			return &storage.Observer{Written: i.webhooks.mutatingObjects.Written, Deleted: i.webhooks.mutatingObjects.Deleted}
		})
	case admissionregistrationv1.Resource(validatingWebhooks):
		return lateObserver(func() *storage.Observer {
			return &storage.Observer{Written: i.webhooks.validatingObjects.Written, Deleted: i.webhooks.validatingObjects.Deleted}
		})
	}
	return nil
}
