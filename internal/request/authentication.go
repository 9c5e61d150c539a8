package request

import "context"

// Credential is the kind of credential by which a user was authenticated.
type Credential string

// The kinds of credentials.
const (
	// CredentialNone is that of a request without any: its user is Anonymous.
	CredentialNone Credential = "anonymous"
	// CredentialCertificate is the client certificate of the connection.
	CredentialCertificate Credential = "certificate"
	// CredentialFrontProxy is the word of a front proxy, known by its certificate.
	CredentialFrontProxy Credential = "front-proxy"
	// CredentialToken is a bearer token.
	CredentialToken Credential = "token"
)

// Authentication is what authentication found out. It is shared and must not be
// changed.
type Authentication struct {
	User       *User
	Credential Credential
	// Audiences are those that the credential was made for, as far as they were
	// asked for; nil where it is for no audience in particular.
	Audiences []string
}

// AuthenticationFrom returns by which credential the request was authenticated,
// and as whom: a request that is made as another user keeps it. It is nil before
// authentication and outside a request.
func AuthenticationFrom(ctx context.Context) *Authentication {
	if s := from(ctx); s != nil {
		return s.authentication
	}
	return nil
}

// SetAuthentication records who asks, and how that is known.
func SetAuthentication(ctx context.Context, a *Authentication) {
	if s := from(ctx); s != nil {
		s.authentication, s.user = a, a.User
	}
}
