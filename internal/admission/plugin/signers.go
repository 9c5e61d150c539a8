package plugin

import (
	"context"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
)

// isSignerAllowed reports whether the user of a request has permission for a verb (approve, sign or attest) on
// a signer, or on all signers of the signer's domain ("example.com/*").
func isSignerAllowed(ctx context.Context, authz authorizer.Authorizer, a *admission.Attributes, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range [...]string{signer, domain + "/*"} {
		decision, _, _ := authz.Authorize(ctx, &authorizer.Attributes{
			User: a.User, Verb: verb, ResourceRequest: true,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", Name: name,
		})
		if decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}
