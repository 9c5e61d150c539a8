// Package authn finds out who sends a request: from the client certificate of
// its connection or from a bearer token. An Authenticator knows one way; a
// Union tries several in turn. What such a user may do is not its concern; the
// filter that asks is filters.Authenticate.
package authn

import (
	"errors"
	"net/http"
	"slices"

	"mainstay.dev/mainstay/internal/request"
)

// ErrUnauthorized is wrapped by the errors of credentials that are not good.
var ErrUnauthorized = errors.New("unauthorized")

// Authenticator finds out who sends a request. It returns nil, nil where the
// request has no credentials of its kind, and an error where they are not
// good. The answer is shared and immutable. It may be called concurrently.
type Authenticator interface {
	Authenticate(r *http.Request) (*request.Authentication, error)
}

// Union tries authenticators in order and returns the first user found. Errors
// count only where nobody is found: a good certificate outweighs a bad token.
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

// Anonymous is how requests without credentials are authenticated. Each call returns a
// value of its own.
func Anonymous() *request.Authentication {
	return &request.Authentication{
		User:       &request.User{Name: request.Anonymous, Groups: []string{request.GroupUnauthenticated}},
		Credential: request.CredentialNone,
	}
}

// authenticated adds the group of everyone whose credentials were good.
func authenticated(user *request.User) *request.User {
	if user.Name == request.Anonymous || slices.Contains(user.Groups, request.GroupAuthenticated) || slices.Contains(user.Groups, request.GroupUnauthenticated) {
		return user
	}
	user.Groups = append(slices.Clip(user.Groups), request.GroupAuthenticated)
	return user
}
