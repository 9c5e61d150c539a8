package request

import "context"

// Impersonation is that a request is made as another user than the authenticated
// one, which AuthenticationFrom still returns. It is shared and must not be changed.
type Impersonation struct {
	User *User
	// Constraint is the verb that allowed it, such as impersonate:user-info; empty
	// for the verb impersonate, which allows everything that the other user may do.
	Constraint string
}

// ImpersonationFrom returns the impersonation of the request, or nil.
func ImpersonationFrom(ctx context.Context) *Impersonation {
	if s := from(ctx); s != nil {
		return s.impersonation
	}
	return nil
}

// SetImpersonation records whom the request impersonates: UserFrom returns that user.
func SetImpersonation(ctx context.Context, i *Impersonation) {
	if s := from(ctx); s != nil {
		s.impersonation, s.user = i, i.User
	}
}
