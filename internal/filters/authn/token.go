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

// TokenVerifier knows one kind of bearer token. It returns nil, nil for tokens
// of another kind, and an error for those of its own that are not good. It may be
// called concurrently.
type TokenVerifier interface {
	// Verify returns whose token it is, and for which of the audiences it is
	// good, of which there must be one; none asked for means the server's own.
	Verify(ctx context.Context, token string, audiences []string) (user *request.User, granted []string, err error)
}

// Tokens authenticates bearer tokens by verifiers in order. A token that none
// of them takes is not good: a client that shows credentials is never taken for
// an anonymous one.
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

// errInvalidToken is the first that clients are told of a token that no verifier takes.
var errInvalidToken = errors.New("invalid bearer token")

// AuthenticateToken returns whose token it is, nil with an error that says why where no
// verifier takes it. Audiences are as in TokenVerifier.
func (t Tokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*request.Authentication, error) {
	errs := []error{errInvalidToken}
	for _, verifier := range t {
		user, granted, err := verifier.Verify(ctx, token, audiences)
		if user != nil {
			return &request.Authentication{User: authenticated(user), Credential: request.CredentialToken, Audiences: granted}, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return nil, utilerrors.NewAggregate(errs) // clients know its form
}

// bearer returns the token of the Authorization header, whose scheme may be
// written in any case. Empty tokens and other schemes count as none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	token, _, _ = strings.Cut(token, " ")
	return token
}
