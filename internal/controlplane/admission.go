package controlplane

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/registry/quota"
)

// AdmissionPlugin describes an admission plugin and its state.
type AdmissionPlugin struct {
	Name        string `json:"name"`
	Description string `json:"does"`
	// Default reports whether the plugin is on by default. On reports whether it is on with the current
	// options.
	Default bool `json:"default"`
	On      bool `json:"on"`
	// Gate is the feature gate that the plugin requires; "" if it requires none.
	Gate feature.Gate `json:"gate,omitempty"`
}

// ListAdmission returns all plugins in their order of execution, with their state under these options.
// The caller owns the result.
func (o Options) ListAdmission() []AdmissionPlugin {
	var list []AdmissionPlugin
	gates := o.Gates()
	for _, r := range plugin.All() {
		list = append(list, AdmissionPlugin{Name: r.Name, Description: r.Description, Default: r.OnByDefault, On: o.enables(r, gates), Gate: r.Gate})
	}
	return list
}

// AdmissionPlugins returns the names of all plugins, enabled or not, in their order of execution.
func AdmissionPlugins() []string {
	var names []string
	for _, r := range plugin.All() {
		names = append(names, r.Name)
	}
	return names
}

// enables reports whether a plugin is on.
func (o Options) enables(r plugin.Registration, gates feature.Gates) bool {
	if r.Gate != "" && !gates.Enabled(r.Gate) {
		return false
	}
	if len(o.Admission.OnlyPlugins) > 0 {
		return slices.Contains(o.Admission.OnlyPlugins, r.Name)
	}
	return !slices.Contains(o.Admission.DisablePlugins, r.Name) && (r.OnByDefault || slices.Contains(o.Admission.EnablePlugins, r.Name))
}

// pluginEnabled reports whether the plugin with the given name is on.
func (s *settings) pluginEnabled(name string) bool {
	return slices.ContainsFunc(plugin.All(), func(r plugin.Registration) bool { return r.Name == name && s.options.enables(r, s.gates) })
}

// admissionPlugins contains the admission plugins of a control plane.
type admissionPlugins struct {
	chain     admission.Chain
	policies  *admissionPolicies
	webhooks  *admissionWebhooks
	manifests manifestDirectories
}

// newAdmission creates the enabled plugins. The plugins of Options.Definitions run before all others.
func newAdmission(s *settings, r *resources, authorizer authorizer.Authorizer, ledger *quota.Ledger, controllers *controllerSet, loops *loops) (*admissionPlugins, error) {
	policies, err := newAdmissionPolicies(s, r.access, authorizer, r.finder, r.builtin)
	if err != nil {
		return nil, err
	}
	report := newWebhookReporter(s, r.access, r.builtin, loops).report
	webhooks, err := newAdmissionWebhooks(s, r.access, r.connections, policies.config, r.builtin, report)
	if err != nil {
		return nil, err
	}
	a := &admissionPlugins{policies: policies, webhooks: webhooks, manifests: slices.Concat(policies.manifests, webhooks.manifests)}
	for _, d := range s.options.Definitions {
		if d.Plugin != nil {
			a.chain = append(a.chain, d.Plugin(authorizer))
		}
	}
	dependencies := a.dependencies(s, r, authorizer, ledger, controllers)
	for _, registration := range plugin.All() {
		if s.options.enables(registration, s.gates) {
			a.chain = append(a.chain, registration.New(dependencies))
		}
	}
	return a, nil
}

func (a *admissionPlugins) dependencies(s *settings, r *resources, authorizer authorizer.Authorizer, ledger *quota.Ledger, controllers *controllerSet) plugin.Dependencies {
	return plugin.Dependencies{
		Client: r.access, Config: s.options.Admission.Config, Gates: s.gates, Authorizer: authorizer, ResourcesOf: r.finder.allOfKind,
		Quotas: ledger, ProvideAccount: controllers.provideAccount,
		NotReadyTolerationSeconds: s.options.Admission.DefaultNotReadyTolerationSeconds, UnreachableTolerationSeconds: s.options.Admission.DefaultUnreachableTolerationSeconds,
		PodSecurityMetrics: s.env.Telemetry.Metrics.Admission.PodSecurity,
		MutatingPolicies:   a.policies.mutating, ValidatingPolicies: a.policies.validating,
		MutatingWebhooks: a.webhooks.mutating, ValidatingWebhooks: a.webhooks.validating,
	}
}

// namespaceClient returns a client that caches decoded namespaces.
func namespaceClient(access *loopback.Access) *loopback.Client[*corev1.Namespace] {
	return loopback.For[*corev1.Namespace](access, corev1.SchemeGroupVersion.WithResource("namespaces")).Cached()
}
