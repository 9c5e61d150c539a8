package authentication

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// review creates a review with the given body, as the user jane.
func review(t *testing.T, env *builtin.Env, resource, body string) (string, error) {
	t.Helper()
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Time{})
	request.SetUser(ctx, &request.User{Name: "jane", Groups: []string{"devs"}, Extra: map[string][]string{"scopes": {"view"}}})
	resources, err := builtin.Build(env, []builtin.Group{V1()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Name != resource {
			continue
		}
		obj, err := r.Version.Decode([]byte(body), codec.JSON, true)
		if err != nil {
			t.Fatal(err)
		}
		record, err := r.Storage.(rest.Creater).Create(ctx, obj, nil, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		answer, err := record.Append(nil, r.Version, codec.JSON)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(answer)), nil
	}
	t.Fatalf("resource %s does not exist", resource)
	return "", nil
}

func TestSelf(t *testing.T) {
	t.Parallel()
	answer, err := review(t, &builtin.Env{}, "selfsubjectreviews", `{"metadata":{"name":"x"},"status":{"userInfo":{"username":"root"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata map[string]any
		Status   json.RawMessage
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Metadata) != 1 || got.Metadata["creationTimestamp"] == nil {
		t.Errorf("metadata is %v", got.Metadata)
	}
	if want := `{"userInfo":{"username":"jane","groups":["devs"],"extra":{"scopes":["view"]}}}`; string(got.Status) != want {
		t.Errorf("status is %s, want %s", got.Status, want)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	env := &builtin.Env{Auth: builtin.Auth{AuthenticateToken: func(_ context.Context, token string, audiences []string) (*request.Authentication, error) {
		switch token {
		case "good":
			return &request.Authentication{User: &request.User{Name: "ann", UID: "1"}, Audiences: []string{"api"}}, nil
		case "unknown":
			return nil, nil
		}
		return nil, errors.New("invalid bearer token")
	}}}
	const head = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},`
	for body, want := range map[string]string{
		`{"spec":{"token":"good"}}`:    head + `"spec":{"token":"good"},"status":{"authenticated":true,"user":{"username":"ann","uid":"1"},"audiences":["api"]}}`,
		`{"spec":{"token":"bad"}}`:     head + `"spec":{"token":"bad"},"status":{"user":{},"error":"invalid bearer token"}}`,
		`{"spec":{"token":"unknown"}}`: head + `"spec":{"token":"unknown"},"status":{"user":{}}}`,
		`{"spec":{"token":"good","audiences":["api","vault"]}}`: head + `"spec":{"token":"good","audiences":["api","vault"]},` +
			`"status":{"authenticated":true,"user":{"username":"ann","uid":"1"},"audiences":["api"]}}`,
	} {
		if got, err := review(t, env, "tokenreviews", body); got != want {
			t.Errorf("%s:\n%s %v, want\n%s", body, got, err, want)
		}
	}
	if _, err := review(t, env, "tokenreviews", `{"spec":{}}`); !apierrors.IsBadRequest(err) || err.Error() != "token is required for TokenReview in authentication" {
		t.Errorf("review without a token: %v", err)
	}
	if _, err := review(t, env, "tokenreviews", `{"spec":{"token":"good","audiences":["vault"]}}`); !apierrors.IsInternalError(err) {
		t.Errorf("an audience that was not requested: %v", err)
	}
}
