package request

import "context"

// Impersonation describes the impersonation of another user by a request. It is shared and must not
// be modified.
type Impersonation struct {
	// User is the impersonated user. AuthenticationFrom returns the authenticated user.
	User *User
	// Constraint is the verb that allowed the impersonation, such as impersonate:user-info. It is
	// empty for the verb impersonate, which allows all actions of the impersonated user.
	Constraint string
}

// ImpersonationFrom returns the impersonation of the request, or nil.
func ImpersonationFrom(ctx context.Context) *Impersonation {
	if s := scopeFrom(ctx); s != nil {
		return s.impersonation
	}
	return nil
}

// SetImpersonation sets the impersonation of the request. UserFrom then returns the impersonated user.
func SetImpersonation(ctx context.Context, i *Impersonation) {
	if s := scopeFrom(ctx); s != nil {
		s.impersonation, s.user = i, i.User
	}
}
