package authz

import (
	"context"
	"errors"
	"testing"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

type fixed struct {
	decision authorizer.Decision
	reason   string
	err      error
}

func (f fixed) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return f.decision, f.reason, f.err
}

func TestUnion(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		name   string
		union  Union
		want   authorizer.Decision
		reason string
		err    bool
	}{
		{"no authorizers", nil, authorizer.DecisionNoOpinion, "", false},
		{"the first that allows", Union{fixed{decision: authorizer.DecisionNoOpinion}, fixed{decision: authorizer.DecisionAllow, reason: "a"}, fixed{decision: authorizer.DecisionDeny}}, authorizer.DecisionAllow, "a", false},
		{"the first that denies", Union{fixed{decision: authorizer.DecisionDeny, reason: "d"}, fixed{decision: authorizer.DecisionAllow}}, authorizer.DecisionDeny, "d", false},
		{"an error before an authorizer that allows", Union{fixed{decision: authorizer.DecisionNoOpinion, err: broken}, fixed{decision: authorizer.DecisionAllow}}, authorizer.DecisionAllow, "", false},
		{"all reasons", Union{fixed{decision: authorizer.DecisionNoOpinion, reason: "a"}, fixed{decision: authorizer.DecisionNoOpinion, err: broken}, fixed{decision: authorizer.DecisionNoOpinion, reason: "b"}}, authorizer.DecisionNoOpinion, "a\nb", true},
	}
	for _, tt := range tests {
		got, reason, err := tt.union.Authorize(t.Context(), &authorizer.Attributes{})
		if got != tt.want || reason != tt.reason || (err != nil) != tt.err {
			t.Errorf("%s: %s %q %v; want %s %q", tt.name, got, reason, err, tt.want, tt.reason)
		}
	}
}

func TestAuthorizers(t *testing.T) {
	t.Parallel()
	master := &request.User{Name: "m", Groups: []string{"a", request.GroupMasters}}
	jane := &request.User{Name: "jane", Groups: []string{"system:authenticated"}}
	tests := []struct {
		name       string
		authorizer authorizer.Authorizer
		attributes authorizer.Attributes
		want       authorizer.Decision
	}{
		{"a master", Masters{}, authorizer.Attributes{User: master, Verb: "delete", ResourceRequest: true}, authorizer.DecisionAllow},
		{"no master", Masters{}, authorizer.Attributes{User: jane, Verb: "get"}, authorizer.DecisionNoOpinion},
		{"no user", Masters{}, authorizer.Attributes{}, authorizer.DecisionNoOpinion},
		{"AlwaysAllow", AlwaysAllow{}, authorizer.Attributes{}, authorizer.DecisionAllow},
		{"AlwaysDeny", AlwaysDeny{}, authorizer.Attributes{User: jane}, authorizer.DecisionNoOpinion},
	}
	for _, tt := range tests {
		if got, _, err := tt.authorizer.Authorize(t.Context(), &tt.attributes); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}
