// Package oidc authenticates tokens of OpenID Connect providers. An AuthenticationConfiguration of
// apiserver.config.k8s.io, from a file or from flags, lists the providers and maps claims to users.
// go-jose verifies signatures with the published keys of the providers.
package oidc

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/filters/authn"
)

// Configuration is an AuthenticationConfiguration, v1 or v1beta1, which have the same
// fields.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	// JWT are the accepted providers.
	JWT []Authenticator `json:"jwt"`
	// Anonymous is nil if the flag --anonymous-auth applies.
	Anonymous *authn.AnonymousConfig `json:"anonymous,omitempty"`
}

// Authenticator is one provider, and how its users are made.
type Authenticator struct {
	Issuer               Issuer               `json:"issuer"`
	ClaimValidationRules []ClaimRule          `json:"claimValidationRules,omitempty"`
	ClaimMappings        ClaimMappings        `json:"claimMappings"`
	UserValidationRules  []UserValidationRule `json:"userValidationRules,omitempty"`

	// SigningAlgs are the accepted algorithms; empty means all asymmetric ones. Only flags set it.
	SigningAlgs []string `json:"-"`
}

// Issuer is a provider.
type Issuer struct {
	URL                  string   `json:"url"`
	DiscoveryURL         string   `json:"discoveryURL,omitempty"`
	CertificateAuthority string   `json:"certificateAuthority,omitempty"`
	Audiences            []string `json:"audiences"`
	AudienceMatchPolicy  string   `json:"audienceMatchPolicy,omitempty"`
	EgressSelectorType   string   `json:"egressSelectorType,omitempty"`
}

// Values of EgressSelectorType.
const (
	egressControlPlane = "controlplane"
	egressCluster      = "cluster"
)

// ClaimRule is a condition on the claims of a token.
type ClaimRule struct {
	Claim         string `json:"claim,omitempty"`
	RequiredValue string `json:"requiredValue,omitempty"`
	Expression    string `json:"expression,omitempty"`
	Message       string `json:"message,omitempty"`
}

// ClaimMappings map claims to parts of a user.
type ClaimMappings struct {
	Username Mapping        `json:"username"`
	Groups   Mapping        `json:"groups"`
	UID      Mapping        `json:"uid"`
	Extra    []ExtraMapping `json:"extra,omitempty"`
}

// Mapping maps a claim, or an expression. UIDs have no prefix.
type Mapping struct {
	Claim      string  `json:"claim,omitempty"`
	Prefix     *string `json:"prefix,omitempty"`
	Expression string  `json:"expression,omitempty"`
}

// ExtraMapping makes the values of a key of extra.
type ExtraMapping struct {
	Key             string `json:"key"`
	ValueExpression string `json:"valueExpression"`
}

// UserValidationRule is a condition on the user that was made of a token.
type UserValidationRule struct {
	Expression string `json:"expression"`
	Message    string `json:"message,omitempty"`
}

// group is that of the configuration; matchAny is that one audience of several will do.
const (
	group    = "apiserver.config.k8s.io"
	matchAny = "MatchAny"
)

// ParseConfiguration reads a configuration in YAML, which may have no unknown field. It
// does not validate; New does.
func ParseConfiguration(data []byte) (*Configuration, error) {
	c := new(Configuration)
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	if c.Kind != "AuthenticationConfiguration" || c.APIVersion != group+"/v1" && c.APIVersion != group+"/v1beta1" {
		return nil, fmt.Errorf("it is a %s of %s; it must be an AuthenticationConfiguration of %s/v1 or v1beta1", c.Kind, c.APIVersion, group)
	}
	return c, nil
}
