package bootstraptokens

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSignature compares a signature with the one that kube-controller-manager creates, which kubeadm verifies.
func TestSignature(t *testing.T) {
	t.Parallel()
	const want = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
	if got := signature("Hello from the other side. I must have called a thousand times.", "joshua", "my voice is my passcode"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWithSignatures(t *testing.T) {
	t.Parallel()
	data := map[string]string{"kubeconfig": "k", "jws-kubeconfig-old": "x", "other": "o"}
	got, ok := withSignatures(data, map[string]string{"new": "secret"})
	want := map[string]string{"kubeconfig": "k", "jws-kubeconfig-new": signature("k", "new", "secret"), "other": "o"}
	if !ok || !maps.Equal(got, want) || len(data) != 3 {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, ok := withSignatures(map[string]string{"other": "o"}, nil); ok {
		t.Error("data without a kubeconfig was signed")
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	good := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: tokenType, Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("s"), "usage-bootstrap-signing": []byte("true"),
			"expiration": []byte(time.Now().Add(time.Hour).Format(time.RFC3339)),
		}}
	}
	if id, token, ok := signingToken(good(), time.Now()); !ok || id != "abcdef" || token != "s" {
		t.Errorf("a good token: %q, %q, %t", id, token, ok)
	}
	for name, change := range map[string]func(*corev1.Secret){
		"another type":   func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"another name":   func(s *corev1.Secret) { s.Name = "bootstrap-token-123456" },
		"invalid name":   func(s *corev1.Secret) { s.Name = "abcdef" },
		"no id":          func(s *corev1.Secret) { s.Name, s.Data["token-id"] = "bootstrap-token-", nil },
		"no secret":      func(s *corev1.Secret) { delete(s.Data, "token-secret") },
		"another use":    func(s *corev1.Secret) { s.Data["usage-bootstrap-signing"] = []byte("no") },
		"expired":        func(s *corev1.Secret) { s.Data["expiration"] = []byte("2020-01-01T00:00:00Z") },
		"invalid expiry": func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") },
	} {
		secret := good()
		change(secret)
		if _, _, ok := signingToken(secret, time.Now()); ok {
			t.Errorf("%s: the token is valid for signing", name)
		}
	}
	forever := good()
	delete(forever.Data, "expiration")
	if _, _, ok := signingToken(forever, time.Now()); !ok || !expiration(forever).IsZero() {
		t.Error("a token without expiration is not valid for signing")
	}
}
