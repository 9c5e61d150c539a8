package authn

import (
	"context"
	"slices"

	"mainstay.dev/mainstay/internal/request"
)

// TokenSource creates verifiers of bearer tokens for several servers, such as the control planes of a
// host. It is safe for concurrent use.
type TokenSource interface {
	// For returns the verifier of a server with these audiences of its own. The verifier retains the
	// slice.
	For(audiences []string) TokenVerifier
}

// UserTokens is a TokenSource of tokens without audiences. It returns the user of a token, or nil if
// the token is unknown.
type UserTokens func(ctx context.Context, token string) (*request.User, error)

// For implements TokenSource.
func (u UserTokens) For(audiences []string) TokenVerifier {
	return AnyAudience{User: u, Audiences: audiences}
}

// AnyAudience verifies tokens without audiences, which are valid for the server's own audiences.
type AnyAudience struct {
	// User returns the user of a token, like TokenVerifier.
	User func(ctx context.Context, token string) (*request.User, error)
	// Audiences are the server's own.
	Audiences []string
}

// Verify implements TokenVerifier.
func (a AnyAudience) Verify(ctx context.Context, token string, audiences []string) (*request.User, []string, error) {
	granted := a.Audiences
	if len(audiences) > 0 {
		granted = common(a.Audiences, audiences)
		if len(granted) == 0 {
			return nil, nil, nil
		}
	}
	user, err := a.User(ctx, token)
	if user == nil {
		return nil, nil, err
	}
	return user, granted, nil
}

// common returns the elements of both lists.
func common(some, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(s string) bool { return !slices.Contains(wanted, s) })
}
