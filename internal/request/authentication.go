package request

import "context"

// Credential is the kind of credential that authenticated a user.
type Credential string

// The kinds of credentials.
const (
	// CredentialNone means that the request has no credential. The user is then Anonymous.
	CredentialNone Credential = "anonymous"
	// CredentialCertificate is the client certificate of the connection.
	CredentialCertificate Credential = "certificate"
	// CredentialFrontProxy means that a front proxy with a trusted client certificate identified
	// the user in headers.
	CredentialFrontProxy Credential = "front-proxy"
	// CredentialToken is a bearer token.
	CredentialToken Credential = "token"
)

// Authentication is the result of authentication. It is shared and must not be modified.
type Authentication struct {
	User       *User
	Credential Credential
	// Audiences are the requested audiences for which the credential is valid, or nil if the
	// credential has no audiences.
	Audiences []string
}

// AuthenticationFrom returns the authentication of a request. Impersonation does not change the
// authentication. The result is nil before authentication and outside a request.
func AuthenticationFrom(ctx context.Context) *Authentication {
	if s := scopeFrom(ctx); s != nil {
		return s.authentication
	}
	return nil
}

// SetAuthentication records the result of authentication and makes its user the user of the request.
func SetAuthentication(ctx context.Context, a *Authentication) {
	if s := scopeFrom(ctx); s != nil {
		s.authentication, s.user = a, a.User
	}
}
