package controlplane

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission/policies"
	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/egress/webhook"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// The resources that configure admission webhooks.
var (
	mutatingWebhooks   = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	validatingWebhooks = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
)

// admissionWebhooks contains the plugins that call webhooks.
type admissionWebhooks struct {
	mutating   *webhooks.Mutating
	validating *webhooks.Validating
	// reflectors follow the configurations in the API. manifests contains the directories with configurations
	// in files.
	reflectors reflectors
	manifests  []*manifestDirectory
}

// newAdmissionWebhooks creates the plugins. A webhook that fails repeatedly is called less often, until it
// responds again. report is called when such a period begins and when it ends, and must not block.
func newAdmissionWebhooks(s *settings, access *loopback.Access, conns *connections, policies *policies.Config, builtin *builtinResources, report func(webhooks.State)) (*admissionWebhooks, error) {
	config := webhooks.Config{
		Namespaces: namespaceClient(access),
		Compile: func(conditions []admissionregistrationv1.MatchCondition, ignore bool) webhooks.Conditions {
			return policies.Conditions(conditions, ignore)
		},
		InterceptReviews: !s.gates.Enabled(feature.ExcludeAdmissionWebhookVirtualResources),
		Metrics:          s.env.Telemetry.Metrics.Admission.Webhooks, Report: report, Logger: s.env.Telemetry.Logger,
	}
	w, files := &admissionWebhooks{}, s.options.Admission.Config
	var err error
	if config.Clients, err = newWebhookClients(conns, files.MutatingAdmissionWebhook.KubeConfigFile); err != nil {
		return nil, fmt.Errorf("MutatingAdmissionWebhook: %w", err)
	}
	w.mutating = webhooks.NewMutating(config)
	if config.Clients, err = newWebhookClients(conns, files.ValidatingAdmissionWebhook.KubeConfigFile); err != nil {
		return nil, fmt.Errorf("ValidatingAdmissionWebhook: %w", err)
	}
	w.validating = webhooks.NewValidating(config)
	if err := addWebhooks(w, s, builtin, mutatingWebhooks.GroupResource(), w.mutating.Objects()); err != nil {
		return nil, err
	}
	if err := addWebhooks(w, s, builtin, validatingWebhooks.GroupResource(), w.validating.Objects()); err != nil {
		return nil, err
	}
	for _, m := range []*manifestDirectory{
		newManifestDirectory(s, builtin, w.mutating, files.MutatingAdmissionWebhook.StaticManifestsDir, mutatingWebhooks.GroupResource()),
		newManifestDirectory(s, builtin, w.validating, files.ValidatingAdmissionWebhook.StaticManifestsDir, validatingWebhooks.GroupResource()),
	} {
		if m != nil {
			w.manifests = append(w.manifests, m)
		}
	}
	return w, nil
}

// addWebhooks connects a plugin to its configurations in the API.
func addWebhooks[T codec.Object](w *admissionWebhooks, s *settings, builtin *builtinResources, resource schema.GroupResource, objects *reflector.Objects[T]) error {
	stored, err := builtin.uncached(resource)
	if err != nil {
		return err
	}
	follower, err := objects.Reflector(stored, s.reflectorMetrics())
	if err != nil {
		return fmt.Errorf("follow %s: %w", resource, err)
	}
	w.reflectors = append(w.reflectors, follower)
	return builtin.storage.observers.addWritten(resource, &storage.Observer{Written: objects.Written, Deleted: objects.Deleted})
}

// newWebhookClients returns clients for webhooks with the credentials of a kubeconfig file. If file is "", the
// clients have no credentials.
func newWebhookClients(conns *connections, file string) (*webhook.Clients, error) {
	clients := &webhook.Clients{Resolver: conns.resolver, Networks: conns.networks}
	if file == "" {
		return clients, nil
	}
	var err error
	clients.Users, err = kubeconfig.ReadUsers(file)
	return clients, err
}

// states returns the states of the webhooks in calling order.
func (w *admissionWebhooks) states() []webhooks.State {
	return append(w.mutating.States(), w.validating.States()...)
}
