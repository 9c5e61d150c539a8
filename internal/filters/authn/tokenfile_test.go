package authn

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"context"

	"mainstay.dev/mainstay/internal/request"
)

func TestStaticTokens(t *testing.T) {
	t.Parallel()
	tokens, err := ParseStaticTokens([]byte("one,jane,u1\ntwo,\"joe, the smith\",u2,\"a,b\",more\n,nobody,u3\none,jill,u4,\n"))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]*request.User{
		"one": {Name: "jill", UID: "u4"}, "two": {Name: "joe, the smith", UID: "u2", Groups: []string{"a", "b"}}, "": nil, "three": nil,
	} {
		got, err := tokens.User(t.Context(), token)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", token, err, diff)
		}
	}
	for file, want := range map[string]string{"one,jane": "at least 3 columns (token, user name, user uid), found 2", "one,\"jane": "extraneous or missing"} {
		if _, err := ParseStaticTokens([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func TestAnyAudience(t *testing.T) {
	t.Parallel()
	verifier := AnyAudience{Audiences: []string{"api", "other"}, User: func(_ context.Context, token string) (*request.User, error) {
		if token == "good" {
			return &request.User{Name: "jane"}, nil
		}
		return nil, nil
	}}
	for _, tt := range []struct {
		token        string
		wanted, want []string
	}{
		{"good", nil, []string{"api", "other"}}, {"good", []string{"x", "other"}, []string{"other"}}, {"good", []string{"x"}, nil}, {"bad", nil, nil},
	} {
		user, granted, err := verifier.Verify(t.Context(), tt.token, tt.wanted)
		if (user != nil) != (tt.want != nil) || err != nil || cmp.Diff(tt.want, granted) != "" {
			t.Errorf("%s for %q: %v, %q, %v", tt.token, tt.wanted, user, granted, err)
		}
	}
}

type secretsOf map[string]*corev1.Secret

func (s secretsOf) Get(_ context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	if found := s[name.String()]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
}

func TestBootstrapTokens(t *testing.T) {
	t.Parallel()
	const token = "abcdef.0123456789abcdef"
	tests := []struct {
		name, token string
		change      func(*corev1.Secret)
		groups      []string // nil if the token is rejected
	}{
		{"good", token, nil, []string{"system:bootstrappers"}},
		{"with extra groups", token, func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte("system:bootstrappers:z,system:bootstrappers:a:b")
		},
			[]string{"system:bootstrappers", "system:bootstrappers:a:b", "system:bootstrappers:z"}},
		{"with a group that is not allowed", token, func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }, nil},
		{"not expired", token, func(s *corev1.Secret) {
			s.Data["expiration"] = []byte(time.Now().Add(time.Hour).Format(time.RFC3339))
		}, []string{"system:bootstrappers"}},
		{"expired", token, func(s *corev1.Secret) { s.Data["expiration"] = []byte("2020-01-01T00:00:00Z") }, nil},
		{"with an invalid expiration", token, func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") }, nil},
		{"not for authentication", token, func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }, nil},
		{"of another type", token, func(s *corev1.Secret) { s.Type = "Opaque" }, nil},
		{"being deleted", token, func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{} }, nil},
		{"of another ID", token, func(s *corev1.Secret) { s.Data["token-id"] = []byte("fedcba") }, nil},
		{"without a secret", token, func(s *corev1.Secret) { delete(s.Data, "token-secret") }, nil},
		{"with another secret", "abcdef.0123456789abcdeg", nil, nil},
		{"unknown", "abcdeg.0123456789abcdef", nil, nil},
		{"no bootstrap token", "ABCDEF.0123456789abcdef", nil, nil},
		{"with a trailing newline", token + "\n", nil, nil},
	}
	for _, tt := range tests {
		secret := &corev1.Secret{Type: "bootstrap.kubernetes.io/token", Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		}}
		if tt.change != nil {
			tt.change(secret)
		}
		user, err := BootstrapTokens{secretsOf{"kube-system/bootstrap-token-abcdef": secret}}.User(t.Context(), tt.token)
		var want *request.User
		if tt.groups != nil {
			want = &request.User{Name: "system:bootstrap:abcdef", Groups: tt.groups}
		}
		if diff := cmp.Diff(want, user); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}
