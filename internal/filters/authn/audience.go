package authn

import (
	"context"
	"slices"

	"mainstay.dev/mainstay/internal/request"
)

// TokenSource creates token verifiers for several servers, such as the control planes of a host. It
// is safe for concurrent use.
type TokenSource interface {
	// Verifier returns a verifier for a server with the given audiences. They apply to tokens without
	// audiences, and to requests that do not specify an audience. The verifier retains the slice.
	Verifier(audiences []string) TokenVerifier
}

// UserTokens is a TokenSource for tokens without audiences. The function returns the user of a
// token, or nil, nil if the token is unknown. It is called concurrently.
type UserTokens func(ctx context.Context, token string) (*request.User, error)

// Verifier implements TokenSource.
func (u UserTokens) Verifier(audiences []string) TokenVerifier {
	return AnyAudience{User: u, Audiences: audiences}
}

// AnyAudience verifies tokens without audiences. Such tokens are valid for all audiences of the
// server.
type AnyAudience struct {
	// User returns the user of a token, or nil, nil if the token is unknown. It is called
	// concurrently.
	User func(ctx context.Context, token string) (*request.User, error)
	// Audiences are the audiences of the server.
	Audiences []string
}

// Verify implements TokenVerifier.
func (a AnyAudience) Verify(ctx context.Context, token string, audiences []string) (*request.User, []string, error) {
	granted := a.Audiences
	if len(audiences) > 0 {
		granted = intersect(a.Audiences, audiences)
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

// intersect returns the elements of some that are also in wanted.
func intersect(some, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(s string) bool { return !slices.Contains(wanted, s) })
}
