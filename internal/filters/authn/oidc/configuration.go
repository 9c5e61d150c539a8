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

// Configuration is an AuthenticationConfiguration of apiserver.config.k8s.io/v1 or v1beta1, which
// have the same fields.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	// JWT contains the accepted providers.
	JWT []Authenticator `json:"jwt"`
	// Anonymous replaces the flag --anonymous-auth. If it is nil, the flag applies.
	Anonymous *authn.AnonymousConfig `json:"anonymous,omitempty"`
}

// Authenticator configures one provider and the mapping of its claims to users.
type Authenticator struct {
	Issuer               Issuer               `json:"issuer"`
	ClaimValidationRules []ClaimRule          `json:"claimValidationRules,omitempty"`
	ClaimMappings        ClaimMappings        `json:"claimMappings"`
	UserValidationRules  []UserValidationRule `json:"userValidationRules,omitempty"`

	// SigningAlgs are the accepted signature algorithms; an empty list accepts all asymmetric
	// algorithms. The field can only be set by flags.
	SigningAlgs []string `json:"-"`
}

// Issuer describes a provider. CertificateAuthority is in PEM. Audiences are the audiences of which a token
// must have at least one. EgressSelectorType selects the network; "" selects a direct connection.
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

// ClaimRule is a condition on the claims of a token. If Claim is set, the claim must have the value
// RequiredValue. Otherwise, Expression must be true. Message is the error message for Expression.
type ClaimRule struct {
	Claim         string `json:"claim,omitempty"`
	RequiredValue string `json:"requiredValue,omitempty"`
	Expression    string `json:"expression,omitempty"`
	Message       string `json:"message,omitempty"`
}

// ClaimMappings maps claims to the attributes of a user.
type ClaimMappings struct {
	Username Mapping        `json:"username"`
	Groups   Mapping        `json:"groups"`
	UID      Mapping        `json:"uid"`
	Extra    []ExtraMapping `json:"extra,omitempty"`
}

// Mapping maps a claim or the result of an expression to an attribute. Prefix is prepended to the
// value of a claim; it is required with Claim for user names and groups, and not allowed otherwise.
type Mapping struct {
	Claim      string  `json:"claim,omitempty"`
	Prefix     *string `json:"prefix,omitempty"`
	Expression string  `json:"expression,omitempty"`
}

// ExtraMapping maps the result of an expression, a string or a list of strings, to a key of the
// user's extra attributes.
type ExtraMapping struct {
	Key             string `json:"key"`
	ValueExpression string `json:"valueExpression"`
}

// UserValidationRule is a condition on the mapped user. Expression must be true; Message is the
// error message.
type UserValidationRule struct {
	Expression string `json:"expression"`
	Message    string `json:"message,omitempty"`
}

// group is the API group of the configuration. matchAny is the AudienceMatchPolicy that requires a
// token to be valid for at least one audience.
const (
	group    = "apiserver.config.k8s.io"
	matchAny = "MatchAny"
)

// ParseConfiguration parses a configuration in YAML or JSON. Unknown fields are an error. It does
// not validate the values; New does.
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
