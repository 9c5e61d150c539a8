package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/request"
)

type objects[T any] map[string]T

func (o objects[T]) Get(_ context.Context, name types.NamespacedName) (T, error) {
	obj, ok := o[name.String()]
	if !ok {
		return obj, errors.New("not found")
	}
	return obj, nil
}

func newTokenKeys(t testing.TB) serviceaccount.Keys {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func sign(t testing.TB, keys serviceaccount.Keys, claims *serviceaccount.Claims) string {
	t.Helper()
	token, err := keys.Sign(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func named(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid)}
}

// boundClaims returns the claims of a token for a/bot that is valid for one hour.
func boundClaims(change func(*serviceaccount.Claims)) *serviceaccount.Claims {
	now := time.Now()
	claims := &serviceaccount.Claims{
		Claims: jwt.Claims{
			Issuer: "https://issuer", ID: "1", IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
			Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
		},
		Audience: []string{"api"},
		Bound:    &serviceaccount.Bound{Namespace: "a", ServiceAccount: serviceaccount.Ref{Name: "bot", UID: "u"}},
	}
	if change != nil {
		change(claims)
	}
	return claims
}

func newAccountVerifier(keys serviceaccount.Keys) *ServiceAccounts {
	going := named("going", "g")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(30 * time.Second)}
	return NewServiceAccounts(ServiceAccountConfig{
		Keys: keys, Issuers: []string{"https://issuer"}, Audiences: []string{"api"},
		Accounts: objects[*corev1.ServiceAccount]{"a/bot": {ObjectMeta: named("bot", "u")}},
		Pods:     objects[*corev1.Pod]{"a/p": {ObjectMeta: named("p", "pu")}, "a/going": {ObjectMeta: going}},
		Secrets:  objects[*corev1.Secret]{},
		Nodes:    objects[*corev1.Node]{"/n": {ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "nu"}}},
	})
}

func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	keys := newTokenKeys(t)
	tests := []struct {
		name   string
		change func(*serviceaccount.Claims)
		later  time.Duration
		err    string
	}{
		{"good", nil, 0, ""},
		{"expired, but within the leeway", nil, time.Hour + 59*time.Second, ""},
		{"expired", nil, time.Hour + 61*time.Second, "service account token has expired"},
		{"not valid yet", func(c *serviceaccount.Claims) { c.NotBefore = jwt.NewNumericDate(time.Now().Add(2 * time.Minute)) }, 0, "service account token is not valid yet"},
		{"issued in the future", func(c *serviceaccount.Claims) { c.IssuedAt = jwt.NewNumericDate(time.Now().Add(2 * time.Minute)) }, 0, "service account token is issued in the future"},
		{"without a binding", func(c *serviceaccount.Claims) { c.Bound = nil }, 0, "unexpected private claim"},
		{"of a missing account", func(c *serviceaccount.Claims) { c.Bound.ServiceAccount.Name = "x" }, 0, "not found"},
		{"of a deleted account with the same name", func(c *serviceaccount.Claims) { c.Bound.ServiceAccount.UID = "x" }, 0, "service account UID (u) does not match claim (x)"},
		{"of a pod", func(c *serviceaccount.Claims) { c.Bound.Pod = &serviceaccount.Ref{Name: "p", UID: "pu"} }, 0, ""},
		{"of a deleted pod with the same name", func(c *serviceaccount.Claims) { c.Bound.Pod = &serviceaccount.Ref{Name: "p", UID: "x"} }, 0, "pod UID (pu) does not match service account pod ref claim (x)"},
		{"of a terminating pod", func(c *serviceaccount.Claims) { c.Bound.Pod = &serviceaccount.Ref{Name: "going", UID: "g"} }, time.Minute, ""},
		{"of a pod after its grace period", func(c *serviceaccount.Claims) { c.Bound.Pod = &serviceaccount.Ref{Name: "going", UID: "g"} }, 2 * time.Minute, "service account token has been invalidated"},
		{"of a pod with a missing node", func(c *serviceaccount.Claims) {
			c.Bound.Pod, c.Bound.Node = &serviceaccount.Ref{Name: "p", UID: "pu"}, &serviceaccount.Ref{Name: "x"}
		}, 0, ""},
		{"of a missing secret", func(c *serviceaccount.Claims) { c.Bound.Secret = &serviceaccount.Ref{Name: "x"} }, 0, "service account token has been invalidated"},
		{"of a node", func(c *serviceaccount.Claims) { c.Bound.Node = &serviceaccount.Ref{Name: "n", UID: "nu"} }, 0, ""},
		{"of a deleted node with the same name", func(c *serviceaccount.Claims) { c.Bound.Node = &serviceaccount.Ref{Name: "n", UID: "x"} }, 0, "node UID (nu) does not match service account node ref claim (x)"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			verifier := newAccountVerifier(keys)
			token := sign(t, keys, boundClaims(tt.change))
			time.Sleep(tt.later)
			for range 2 { // the second verification uses the cached signature
				user, _, err := verifier.Verify(t.Context(), token, nil)
				if (tt.err == "") != (user != nil) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("%s: user %v, error %v; want the error %q", tt.name, user, err, tt.err)
				}
			}
		})
	}
}

// TestServiceAccountsOtherIssuers checks that Verify returns no error for tokens of other issuers, so that the
// next verifier is tried, and that such tokens are not cached.
func TestServiceAccountsOtherIssuers(t *testing.T) {
	t.Parallel()
	verifier := newAccountVerifier(newTokenKeys(t))
	other := newTokenKeys(t)
	for name, token := range map[string]string{
		"nothing": "", "no token": "a.b.c", "another issuer": sign(t, other, boundClaims(func(c *serviceaccount.Claims) { c.Issuer = "https://other" })),
		"JSON": `{"payload":"","signatures":[]}`, "very many dots": strings.Repeat(".", 1<<20),
	} {
		if user, _, err := verifier.Verify(t.Context(), token, nil); user != nil || err != nil {
			t.Errorf("%s: user %v, error %v; want neither", name, user, err)
		}
	}
	if user, _, err := verifier.Verify(t.Context(), sign(t, other, boundClaims(nil)), nil); user != nil || err == nil {
		t.Errorf("another key: %v, %v", user, err)
	}
	if n := verifier.verified.Len(); n > 0 {
		t.Errorf("%d tokens are cached", n)
	}
}

// TestTokensOfSecrets checks tokens that kube-controller-manager writes to secrets.
func TestTokensOfSecrets(t *testing.T) {
	t.Parallel()
	keys := newTokenKeys(t)
	legacy := func(change func(*serviceaccount.Claims)) string {
		claims := &serviceaccount.Claims{
			Claims: jwt.Claims{Issuer: serviceaccount.LegacyIssuer, Subject: "system:serviceaccount:a:bot"},
			Legacy: serviceaccount.Legacy{Namespace: "a", Secret: "s", Name: "bot", UID: "u"},
		}
		if change != nil {
			change(claims)
		}
		return sign(t, keys, claims)
	}
	good, marked := legacy(nil), legacy(func(c *serviceaccount.Claims) { c.Legacy.Secret = "marked" })
	verifier := newAccountVerifier(keys)
	secret := func(name, token string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: named(name, ""), Data: map[string][]byte{"token": []byte(token)}}
	}
	old := secret("marked", marked)
	old.Labels = map[string]string{invalidSince: "2026-01-01"}
	verifier.config.Secrets = objects[*corev1.Secret]{"a/s": secret("s", good), "a/marked": old}
	tests := []struct{ name, token, err, withoutLookup string }{
		{"good", good, "", ""},
		{"marked", marked, "has been marked invalid", ""},
		{"of a deleted secret", legacy(func(c *serviceaccount.Claims) { c.Legacy.Secret = "x" }), "Token has been invalidated", ""},
		{"of a secret with another token", legacy(func(c *serviceaccount.Claims) { c.ID = "2" }), "Token does not match server's copy", ""},
		{"with another subject", legacy(func(c *serviceaccount.Claims) { c.Subject = "system:serviceaccount:a:root" }), "sub claim is invalid", "sub claim is invalid"},
		{"without a namespace", legacy(func(c *serviceaccount.Claims) { c.Legacy.Namespace = "" }), "namespace claim is missing", "namespace claim is missing"},
	}
	want := &request.User{Name: "system:serviceaccount:a:bot", UID: "u", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:a"}}
	for _, tt := range tests {
		for without, expected := range map[bool]string{false: tt.err, true: tt.withoutLookup} {
			v := NewServiceAccounts(verifier.config)
			v.config.SkipLookup = without
			user, granted, err := v.Verify(t.Context(), tt.token, nil)
			if expected != "" {
				if user != nil || err == nil || !strings.Contains(err.Error(), expected) {
					t.Errorf("%s: user %v, error %v; want the error %q", tt.name, user, err, expected)
				}
				continue
			}
			if diff := cmp.Diff(want, user); diff != "" || err != nil || cmp.Diff([]string{"api"}, granted) != "" {
				t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
			}
		}
	}
}

// writes is an Updater of one secret. It counts the writes.
type writes struct {
	secret *corev1.Secret
	count  int
	err    error
}

func (w *writes) Update(_ context.Context, _ types.NamespacedName, change func(*corev1.Secret) error) (*corev1.Secret, error) {
	after := w.secret.DeepCopy()
	if err := errors.Join(w.err, change(after)); err != nil {
		return nil, err
	}
	if !maps.Equal(after.Labels, w.secret.Labels) {
		w.secret, w.count = after, w.count+1
	}
	return after, nil
}

// TestMarkUsed checks that the last use is written once a day, only to the secret of the token, and
// that a failed write does not invalidate the token.
func TestMarkUsed(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	stored := func(day string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "1", Labels: map[string]string{lastUsed: day}}}
	}
	for _, tt := range []struct {
		name, seen, stored, want string
		err                      error
	}{
		{"never before", "", "", "2026-11-22", nil},
		{"yesterday", "2026-11-21", "2026-11-21", "2026-11-22", nil},
		{"today", "2026-11-22", "2026-11-22", "2026-11-22", nil},
		{"tomorrow, by another server", "2026-11-23", "2026-11-23", "2026-11-23", nil},
		{"today, by another request meanwhile", "", "2026-11-22", "2026-11-22", nil},
		{"nonsense", "x", "x", "2026-11-22", nil},
		{"a failed write", "", "", "", errors.New("full")},
	} {
		w := &writes{secret: stored(tt.stored), err: tt.err}
		s := NewServiceAccounts(ServiceAccountConfig{UsedSecrets: w})
		s.markUsed(t.Context(), stored(tt.seen), noon)
		if got := w.secret.Labels[lastUsed]; got != tt.want || w.count > 1 || w.count == 1 && tt.stored == tt.want {
			t.Errorf("%s: %s after %d writes, want %s", tt.name, got, w.count, tt.want)
		}
	}
	another := stored("")
	another.UID = "2"
	w := &writes{secret: another}
	NewServiceAccounts(ServiceAccountConfig{UsedSecrets: w}).markUsed(t.Context(), stored(""), noon)
	if w.count > 0 {
		t.Error("another secret with the same name was marked")
	}
}

func BenchmarkServiceAccounts(b *testing.B) {
	keys := newTokenKeys(b)
	verifier, token := newAccountVerifier(keys), sign(b, keys, boundClaims(nil))
	b.ReportAllocs()
	for b.Loop() {
		if user, _, err := verifier.Verify(context.Background(), token, nil); user == nil || err != nil {
			b.Fatal(err)
		}
	}
}
