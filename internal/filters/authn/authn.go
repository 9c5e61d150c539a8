// Package authn authenticates requests by the client certificate of the connection or by a bearer
// token. An Authenticator implements one authentication method. A Union tries several methods.
// filters.Authenticate calls the Authenticator of the server.
package authn

import (
	"errors"
	"net/http"
	"slices"

	"mainstay.dev/mainstay/internal/request"
)

// ErrUnauthorized is wrapped by errors for invalid credentials.
var ErrUnauthorized = errors.New("unauthorized")

// RejectionError is returned by an Authenticator if the credentials are valid, but the user must not use the
// server. The client receives Status instead of 401. Clients do not receive other API errors of
// authenticators, such as the NotFound error of a service account.
type RejectionError struct{ Status error }

func (e *RejectionError) Error() string { return e.Status.Error() }

// Unwrap returns Status.
func (e *RejectionError) Unwrap() error { return e.Status }

// Authenticator authenticates requests. It returns nil, nil if the request has no credentials of
// the kind that it verifies, and an error if the credentials are invalid. The caller must not
// modify the result, which may be shared by requests. An Authenticator may remove credentials from
// the request header. It is safe for concurrent use.
type Authenticator interface {
	Authenticate(r *http.Request) (*request.Authentication, error)
}

// Union tries authenticators in order and returns the first user found. Errors are returned only if no user is
// found, so a valid certificate is sufficient even if the token is invalid. It is safe for concurrent use.
type Union []Authenticator

// Authenticate implements Authenticator.
func (u Union) Authenticate(r *http.Request) (*request.Authentication, error) {
	var errs []error
	for _, authenticator := range u {
		found, err := authenticator.Authenticate(r)
		if found != nil {
			return found, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return nil, errors.Join(errs...)
}

// Anonymous returns a new Authentication for requests without credentials.
func Anonymous() *request.Authentication {
	return &request.Authentication{
		User:       &request.User{Name: request.Anonymous, Groups: []string{request.GroupUnauthenticated}},
		Credential: request.CredentialNone,
	}
}

// addAuthenticatedGroup adds the group system:authenticated, unless the user is anonymous. It
// modifies and returns user.
func addAuthenticatedGroup(user *request.User) *request.User {
	if user.Name == request.Anonymous || slices.Contains(user.Groups, request.GroupAuthenticated) || slices.Contains(user.Groups, request.GroupUnauthenticated) {
		return user
	}
	user.Groups = append(slices.Clip(user.Groups), request.GroupAuthenticated)
	return user
}
