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

// rowDependencies contains the components that the hooks of built-in resources use. The hooks use them only
// while they handle a request.
type rowDependencies struct {
	// storage opens the storage of a resource.
	storage       func(storage.Spec) (storage.Interface, error)
	resources     *resourceFinder
	authorization *authorization
	tokens        authn.Tokens
	documents     *openapi.Documents
	proxy         *proxy.Proxy
	cluster       egress.Cluster
}

// newDeclarationEnv returns the environment that selects the built-in resources and their versions. It does
// not retain s, because several control planes share the declarations.
func newDeclarationEnv(s *settings) *builtin.Env {
	enablement, _ := s.options.Features.enablement() // Options.Check has validated it
	return &builtin.Env{
		Gates: s.gates, Enablement: enablement, Release: s.release, Newer: s.options.Features.Emulation.newer(),
		Storage: builtin.StorageEnv{Shared: s.env.Storage.Shared},
	}
}

// newRowEnv returns the environment of the built-in resources.
func newRowEnv(s *settings, d rowDependencies) *builtin.Env {
	options, identity := &s.options, &s.env.Identity
	env := newDeclarationEnv(s)
	env.DenyPrivileged = options.Admission.DenyPrivileged
	env.EventTTL = options.Storage.EventTTL
	env.ValidationLimiter = s.env.Limits.Validations
	env.Deletion = options.Storage.deletion()
	env.Reserved = definitionPaths(options.Definitions)
	env.Storage.Open = d.storage
	env.Storage.Health = func(ctx context.Context) error { return s.env.Storage.Backend.Health(ctx) }
	env.Services = builtin.ServiceNetwork{Ranges: options.Services.ClusterIPRange, NodePorts: options.Services.NodePortRange}
	env.Connections = builtin.Connections{
		Cluster: d.cluster,
		Kubelets: kubelet.New(kubelet.Config{
			AddressTypes: options.Kubelet.PreferredAddressTypes, Port: options.Kubelet.Port, Timeout: options.Kubelet.Timeout,
			Certificate: identity.KubeletCertificate, Authorities: identity.KubeletAuthorities,
			Gates: s.gates, Proxy: d.proxy, Dial: s.env.Network.Networks.Cluster,
		}),
	}
	env.Auth = builtin.Auth{
		Authorizer:        d.authorization.authorizer,
		UserRules:         d.authorization.reviewRules,
		ResourceFor:       d.resources.nameOfKind,
		AuthenticateToken: d.tokens.AuthenticateToken,
		Tokens:            newTokenIssuer(s),
	}
	env.ServesVersion = func(gv schema.GroupVersion) bool {
		return slices.Contains(groupVersions(d.resources.served), gv)
	}
	if d.authorization.rbac != nil {
		env.Auth.Roles = d.authorization.rbac
	}
	if options.Controllers.enabled(policyStatusController) {
		env.Types = &typeResolver{resources: d.resources, documents: d.documents}
	}
	return env
}
