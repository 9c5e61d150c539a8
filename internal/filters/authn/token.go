package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/request"
)

// TokenVerifier verifies one kind of bearer token. It returns nil, nil for tokens of another kind,
// and an error for invalid tokens of its own kind. It is safe for concurrent use.
type TokenVerifier interface {
	// Verify returns the user of the token, and the requested audiences for which the token is
	// valid. There is at least one such audience. If audiences is empty, the audiences of the
	// server are used. The caller may modify the returned user, but not its slices and maps.
	Verify(ctx context.Context, token string, audiences []string) (user *request.User, granted []string, err error)
}

// Tokens authenticates bearer tokens with verifiers in order. A token that no verifier accepts is
// an error, because a client with credentials must not become anonymous. It is safe for concurrent
// use.
type Tokens []TokenVerifier

// Authenticate implements Authenticator.
func (t Tokens) Authenticate(r *http.Request) (*request.Authentication, error) {
	token, err := bearer(r), error(nil)
	if token == "" {
		token, err = webSocketToken(r)
	}
	if err != nil {
		return nil, fmt.Errorf("WebSocket bearer token: %w: %w", err, ErrUnauthorized)
	}
	if token == "" {
		return nil, nil
	}
	found, err := t.AuthenticateToken(r.Context(), token, nil)
	if found == nil {
		return nil, fmt.Errorf("bearer token: %w", errors.Join(err, ErrUnauthorized))
	}
	return found, nil
}

// errInvalidToken is the first error for a token that no verifier accepts.
var errInvalidToken = errors.New("invalid bearer token")

// AuthenticateToken returns the user of a token, or nil and an error if no verifier accepts it. If
// audiences is empty, the audiences of the server are used.
func (t Tokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*request.Authentication, error) {
	errs := []error{errInvalidToken}
	for _, verifier := range t {
		user, granted, err := verifier.Verify(ctx, token, audiences)
		if user != nil {
			return &request.Authentication{User: addAuthenticatedGroup(user), Credential: request.CredentialToken, Audiences: granted}, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return nil, utilerrors.NewAggregate(errs) // clients receive the message of this error in TokenReviews
}

// bearer returns the token of the Authorization header. It returns "" for empty tokens and other
// schemes. The scheme is case-insensitive. A second space before the token results in an empty token and, as in
// kube-apiserver, in a warning.
func bearer(r *http.Request) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	token, _, more := strings.Cut(rest, " ")
	if token == "" && more {
		request.AddWarning(r.Context(), "the provided Authorization header contains extra space before the bearer token, and is ignored")
	}
	return token
}
