package serviceaccount

import (
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4/jwt"
)

// LegacyIssuer is the issuer of the tokens that kube-controller-manager stores in secrets.
const LegacyIssuer = "kubernetes/serviceaccount"

// Claims contains the claims of a token. Claims are shared and must not be modified after signing
// or verification.
type Claims struct {
	jwt.Claims
	// Audience replaces jwt.Claims.Audience, which is never set.
	Audience Audience `json:"aud,omitempty"`
	// Bound is nil for tokens of LegacyIssuer.
	Bound *Bound `json:"kubernetes.io,omitempty"`
	Legacy
}

// Audience is encoded as a list even if it contains a single audience. jwt.Audience would encode a single
// audience as a string, which some verifiers do not expect from kube-apiserver. Both forms can be decoded.
type Audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *Audience) UnmarshalJSON(data []byte) error { return (*jwt.Audience)(a).UnmarshalJSON(data) }

// Bound identifies the service account of a token and the pod, secret or node to which the token is
// bound, if any. For a token that is bound to a pod, Node is informational. WarnAfter is the
// requested expiration of a token with an extended lifetime.
type Bound struct {
	Namespace      string           `json:"namespace,omitempty"`
	Node           *Ref             `json:"node,omitempty"`
	Pod            *Ref             `json:"pod,omitempty"`
	Secret         *Ref             `json:"secret,omitempty"`
	ServiceAccount Ref              `json:"serviceaccount"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

// Ref identifies an object in a token.
type Ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// Legacy contains the claims of tokens of LegacyIssuer.
type Legacy struct {
	Namespace string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Name      string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	UID       string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// Encode returns the claims as the JSON payload of a token. It returns an error if the JSON encoding fails.
func (c *Claims) Encode() ([]byte, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode claims of service account token: %w", err)
	}
	return payload, nil
}

func decodeClaims(payload []byte) (*Claims, error) {
	claims := new(Claims)
	if err := json.Unmarshal(payload, claims); err != nil {
		return nil, fmt.Errorf("decode claims of service account token: %w", err)
	}
	return claims, nil
}

// CredentialID returns the credential ID for a token ID (claim "jti"), in the form that is used in
// the extra fields of users and in audit events.
func CredentialID(tokenID string) string { return "JTI=" + tokenID }
