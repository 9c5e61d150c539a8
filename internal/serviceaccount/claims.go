package serviceaccount

import (
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4/jwt"
)

// LegacyIssuer is that of tokens that kube-controller-manager puts into secrets.
const LegacyIssuer = "kubernetes/serviceaccount"

// Claims are the claims of a token. They are shared and must not be modified after signing or
// verification.
type Claims struct {
	jwt.Claims
	// Audience hides that of jwt.Claims, which is never set.
	Audience Audience `json:"aud,omitempty"`
	// Bound is nil in tokens of LegacyIssuer.
	Bound *Bound `json:"kubernetes.io,omitempty"`
	Legacy
}

// Audience is a list in every token, one of a single audience too: jwt.Audience would be a string
// then, which some verifiers do not expect of kube-apiserver. Both are read.
type Audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *Audience) UnmarshalJSON(data []byte) error { return (*jwt.Audience)(a).UnmarshalJSON(data) }

// Bound contains the account of a token and its bound object: at most one of Pod and Secret, or the
// node. With a pod, Node is informational.
type Bound struct {
	Namespace      string           `json:"namespace,omitempty"`
	Node           *Ref             `json:"node,omitempty"`
	Pod            *Ref             `json:"pod,omitempty"`
	Secret         *Ref             `json:"secret,omitempty"`
	ServiceAccount Ref              `json:"serviceaccount"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

// Ref is an object that a token names.
type Ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// Legacy are the claims of tokens of LegacyIssuer.
type Legacy struct {
	Namespace string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Name      string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	UID       string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// Encode returns the payload of a token.
func (c *Claims) Encode() ([]byte, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the claims of a service account token: %w", err)
	}
	return payload, nil
}

func readClaims(payload []byte) (*Claims, error) {
	claims := new(Claims)
	if err := json.Unmarshal(payload, claims); err != nil {
		return nil, fmt.Errorf("read the claims of a service account token: %w", err)
	}
	return claims, nil
}

// CredentialID is how a token is called in extra fields of its user and in audit events.
func CredentialID(tokenID string) string { return "JTI=" + tokenID }
