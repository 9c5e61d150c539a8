package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"mainstay.dev/mainstay/request"
)

// TokenVerifier knows one kind of bearer token. It returns nil, nil for tokens
// of another kind, and an error for those of its own that are not good.
type TokenVerifier interface {
	Verify(ctx context.Context, token string) (*request.User, error)
}

// Tokens authenticates bearer tokens by verifiers in order. A token that none
// of them takes is not good: a client that shows credentials is never taken for
// an anonymous one.
type Tokens []TokenVerifier

// Authenticate implements Authenticator.
func (t Tokens) Authenticate(r *http.Request) (*request.User, error) {
	token := bearer(r)
	if token == "" {
		return nil, nil
	}
	var errs []error
	for _, verifier := range t {
		user, err := verifier.Verify(r.Context(), token)
		if user != nil {
			return authenticated(user), nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return nil, fmt.Errorf("bearer token: %w", errors.Join(append(errs, ErrUnauthorized)...))
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
