package controlplane

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/storage"
)

// rowDependencies are the components that the hooks of built-in resources use. The hooks call them
// for requests only.
type rowDependencies struct {
	// storage opens the storage of a resource; nil describes the resources only.
	storage       func(storage.Spec) (storage.Interface, error)
	resources     *resourceFinder
	authorization *authorization
	tokens        authn.Tokens
	documents     *openapi.Documents
	proxy         *proxy.Proxy
	cluster       egress.Cluster
}

// newRowEnv returns the environment of the built-in resources.
func newRowEnv(s *settings, d rowDependencies) *builtin.Env {
	options, identity := &s.options, &s.env.Identity
	enablement, _ := options.Features.enablement() // Options.Check has validated it
	env := &builtin.Env{
		Gates:             s.gates,
		Enablement:        enablement,
		Release:           s.release,
		Newer:             options.Features.Emulation.newer(),
		DenyPrivileged:    options.Admission.DenyPrivileged,
		EventTTL:          options.Storage.EventTTL,
		ValidationLimiter: s.env.Limits.Validations,
		Deletion:          options.Storage.deletion(),
		Reserved:          definitionPaths(options.Definitions),
		Storage: builtin.StorageEnv{
			Open:   d.storage,
			Shared: s.env.Storage.Shared,
			Health: func(ctx context.Context) error { return s.env.Storage.Backend.Health(ctx) },
		},
		Services: builtin.ServiceNetwork{Ranges: options.Services.ClusterIPRange, NodePorts: options.Services.NodePortRange},
		Connections: builtin.Connections{
			Cluster: d.cluster,
			Kubelets: kubelet.New(kubelet.Config{
				AddressTypes: options.Kubelet.PreferredAddressTypes, Port: options.Kubelet.Port, Timeout: options.Kubelet.Timeout,
				Certificate: identity.KubeletCertificate, Authorities: identity.KubeletAuthorities,
				Gates: s.gates, Proxy: d.proxy, Dial: s.env.Network.Networks.Cluster,
			}),
		},
		Auth: builtin.Auth{
			Authorizer:        d.authorization.authorizer,
			UserRules:         d.authorization.reviewRules,
			ResourceFor:       d.resources.nameOfKind,
			AuthenticateToken: d.tokens.AuthenticateToken,
			Tokens:            newTokenIssuer(s),
		},
		ServesVersion: func(gv schema.GroupVersion) bool {
			return slices.Contains(groupVersions(d.resources.served), gv)
		},
	}
	if d.authorization.rbac != nil {
		env.Auth.Roles = d.authorization.rbac
	}
	if options.Controllers.enabled(policyStatusController) {
		env.Types = &typeResolver{resources: d.resources, documents: d.documents}
	}
	return env
}
