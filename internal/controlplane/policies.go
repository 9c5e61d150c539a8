package controlplane

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/policies"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// admissionPolicies contains the plugins that evaluate policies.
type admissionPolicies struct {
	config     *policies.Config
	validating policies.Validating
	mutating   policies.Mutating
	// reflectors follow the policies and bindings in the API. manifests contains the directories with
	// policies in files.
	reflectors reflectors
	manifests  []*manifestDirectory
}

// policyPlugin is one of the two plugins that evaluate policies.
type policyPlugin interface {
	admission.Plugin
	SetStatic([]codec.Object)
	Resources() [2]schema.GroupResource
	Reflector(schema.GroupResource, reflector.Collection, *reflector.Metrics) (*reflector.Reflector, error)
	Observer(schema.GroupResource) *storage.Observer
}

func newAdmissionPolicies(s *settings, access *loopback.Access, authorizer authorizer.Authorizer, resources *resourceFinder, builtin *builtinResources) (*admissionPolicies, error) {
	config := &policies.Config{
		Namespaces: namespaceClient(access), Authorizer: authorizer, ResourceOf: resources.ofKind,
		TypeConverter: s.env.TypeConverter, Programs: new(policy.Programs), Metrics: s.env.Telemetry.Metrics.Admission.Policies, Logger: s.env.Telemetry.Logger,
	}
	p := &admissionPolicies{config: config, validating: policies.NewValidating(config), mutating: policies.NewMutating(config)}
	files := s.options.Admission.Config
	if err := p.add(s, builtin, p.validating, files.ValidatingAdmissionPolicy.StaticManifestsDir); err != nil {
		return nil, err
	}
	if !s.gates.Enabled(feature.MutatingAdmissionPolicy) {
		return p, nil
	}
	return p, p.add(s, builtin, p.mutating, files.MutatingAdmissionPolicy.StaticManifestsDir)
}

// add connects a plugin to its policies and bindings in the API and in a directory of files.
// directory may be "".
func (p *admissionPolicies) add(s *settings, builtin *builtinResources, plugin policyPlugin, directory string) error {
	resources := plugin.Resources()
	if m := newManifestDirectory(s, builtin, plugin, directory, resources[:]...); m != nil {
		p.manifests = append(p.manifests, m)
	}
	for _, resource := range resources {
		stored, err := builtin.uncached(resource)
		if err != nil {
			return err
		}
		follower, err := plugin.Reflector(resource, stored, s.reflectorMetrics())
		if err != nil {
			return fmt.Errorf("follow %s: %w", resource, err)
		}
		p.reflectors = append(p.reflectors, follower)
		if err := builtin.storage.observers.addWritten(resource, plugin.Observer(resource)); err != nil {
			return err
		}
	}
	return nil
}
