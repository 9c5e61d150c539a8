package authn

import (
	"context"
	"slices"

	"mainstay.dev/mainstay/internal/request"
)

// AnyAudience verifies tokens that say nothing of audiences: they are good for the
// server's own.
type AnyAudience struct {
	// User returns whose token it is, as TokenVerifier does.
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

// common returns those of some that are wanted.
func common(some, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(s string) bool { return !slices.Contains(wanted, s) })
}
