package authz

import (
	"context"
	"errors"
	"testing"

	"mainstay.dev/mainstay/request"
)

type fixed struct {
	decision Decision
	reason   string
	err      error
}

func (f fixed) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return f.decision, f.reason, f.err
}

func TestUnion(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		name   string
		union  Union
		want   Decision
		reason string
		err    bool
	}{
		{"nobody asked", nil, NoOpinion, "", false},
		{"the first that allows", Union{fixed{}, fixed{decision: Allow, reason: "a"}, fixed{decision: Deny}}, Allow, "a", false},
		{"the first that denies", Union{fixed{decision: Deny, reason: "d"}, fixed{decision: Allow}}, Deny, "d", false},
		{"an error does not keep others from allowing", Union{fixed{err: broken}, fixed{decision: Allow}}, Allow, "", false},
		{"all reasons", Union{fixed{reason: "a"}, fixed{err: broken}, fixed{reason: "b"}}, NoOpinion, "a\nb", true},
	}
	for _, tt := range tests {
		got, reason, err := tt.union.Authorize(t.Context(), &Attributes{})
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
		authorizer Authorizer
		attributes Attributes
		want       Decision
	}{
		{"a master", Masters{}, Attributes{User: master, Verb: "delete", IsResource: true}, Allow},
		{"no master", Masters{}, Attributes{User: jane, Verb: "get"}, NoOpinion},
		{"nobody", Masters{}, Attributes{}, NoOpinion},
		{"health", PublicInfo{}, Attributes{User: jane, Verb: "get", Path: "/healthz"}, Allow},
		{"version", PublicInfo{}, Attributes{Verb: "get", Path: "/version/"}, Allow},
		{"a single check", PublicInfo{}, Attributes{Verb: "get", Path: "/readyz/etcd"}, NoOpinion},
		{"another method", PublicInfo{}, Attributes{Verb: "post", Path: "/healthz"}, NoOpinion},
		{"metrics", PublicInfo{}, Attributes{Verb: "get", Path: "/metrics"}, NoOpinion},
		{"a resource", PublicInfo{}, Attributes{Verb: "get", IsResource: true, Path: "/healthz"}, NoOpinion},
		{"always", AlwaysAllow{}, Attributes{}, Allow},
		{"never", AlwaysDeny{}, Attributes{User: jane}, NoOpinion},
	}
	for _, tt := range tests {
		if got, _, err := tt.authorizer.Authorize(t.Context(), &tt.attributes); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestAttributesOf(t *testing.T) {
	t.Parallel()
	user := &request.User{Name: "jane"}
	resource := AttributesOf(user, &request.Info{IsResource: true, Verb: "get", Group: "apps", Version: "v1", Namespace: "a", Resource: "deployments", Subresource: "scale", Name: "x", Path: "/p"})
	want := Attributes{User: user, Verb: "get", IsResource: true, Group: "apps", Version: "v1", Namespace: "a", Resource: "deployments", Subresource: "scale", Name: "x", Path: "/p"}
	if resource != want {
		t.Errorf("%+v, want %+v", resource, want)
	}
	path := AttributesOf(user, &request.Info{Verb: "get", Path: "/metrics"})
	if want := (Attributes{User: user, Verb: "get", Path: "/metrics"}); path != want {
		t.Errorf("%+v, want %+v", path, want)
	}
}
