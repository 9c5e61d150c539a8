package host

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/test/testserver"
)

// TestBootstrapTokenControllers checks that expired bootstrap tokens are deleted, and that the ConfigMap
// cluster-info is signed with the other tokens.
func TestBootstrapTokenControllers(t *testing.T) {
	t.Parallel()
	config := Config{}
	config.ControlPlane.Controllers.Names = []string{"*", "bootstrap-signer-controller"}
	s := start(t, config)
	const secrets = "/api/v1/namespaces/kube-system/secrets"
	token := func(id string, kind string, expires time.Time) {
		s.create(t, secrets, fmt.Sprintf(`{"metadata":{"name":"bootstrap-token-%s"},"type":%q,"stringData":{"token-id":%q,"token-secret":"0123456789abcdef","usage-bootstrap-signing":"true","expiration":%q}}`,
			id, kind, id, expires.UTC().Format(time.RFC3339)))
	}
	const kind = "bootstrap.kubernetes.io/token"
	token("aaaaaa", kind, time.Now().Add(time.Hour))
	token("bbbbbb", kind, time.Now().Add(2*time.Second))
	token("cccccc", kind, time.Now().Add(-time.Hour))
	token("dddddd", "Opaque", time.Now().Add(-time.Hour))
	s.awaitCode(t, secrets+"/bootstrap-token-cccccc", 404)
	s.create(t, "/api/v1/namespaces/kube-public/configmaps", `{"metadata":{"name":"cluster-info"},"data":{"kubeconfig":"k"}}`)
	signatures := func(want string) {
		s.awaitConfigMap(t, "kube-public", "cluster-info", func(m *corev1.ConfigMap) bool {
			var found []string
			for _, id := range []string{"aaaaaa", "bbbbbb", "cccccc", "dddddd"} {
				if strings.Contains(m.Data["jws-kubeconfig-"+id], "..") {
					found = append(found, id)
				}
			}
			return strings.Join(found, " ") == want
		})
	}
	s.awaitCode(t, secrets+"/bootstrap-token-bbbbbb", 404)
	signatures("aaaaaa")
	if code, body := s.do(t, "GET", secrets+"/bootstrap-token-dddddd", ""); code != 200 {
		t.Errorf("get a Secret that is not a token: %d %s", code, body)
	}
	if code, body := s.do(t, "DELETE", secrets+"/bootstrap-token-aaaaaa", ""); code != 200 {
		t.Fatalf("unexpected response: %d %s", code, body)
	}
	signatures("")
}

// TestAccountTokens checks that the server adds a token to a Secret for a service account token, and that
// the token is valid until the Secret or the service account is deleted.
func TestAccountTokens(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const base = "/api/v1/namespaces/default/"
	s.create(t, base+"serviceaccounts", `{"metadata":{"name":"jane"},"secrets":[{"name":"one"},{"name":"other"}]}`)
	tokens := map[string]string{}
	for _, name := range []string{"one", "two"} {
		s.create(t, base+"secrets", `{"metadata":{"name":"`+name+`","annotations":{"kubernetes.io/service-account.name":"jane"}},"type":"kubernetes.io/service-account-token"}`)
		testserver.Eventually(t, time.Minute, func() error {
			var secret corev1.Secret
			s.read(t, base+"secrets/"+name, &secret)
			tokens[name] = string(secret.Data["token"])
			if tokens[name] == "" || string(secret.Data["namespace"]) != "default" || !strings.Contains(string(secret.Data["ca.crt"]), "BEGIN CERTIFICATE") {
				return fmt.Errorf("the secret is %+v", secret)
			}
			return nil
		})
	}
	const jane = "system:serviceaccount:default:jane[system:serviceaccounts system:serviceaccounts:default system:authenticated]"
	if got := whoami(t, s, tokens["one"]); got != jane {
		t.Errorf("the token belongs to %q", got)
	}
	if code, body := s.do(t, "DELETE", base+"secrets/one", ""); code != 200 {
		t.Fatalf("unexpected response: %d %s", code, body)
	}
	testserver.Eventually(t, time.Minute, func() error {
		var account corev1.ServiceAccount
		s.read(t, base+"serviceaccounts/jane", &account)
		if len(account.Secrets) != 1 || account.Secrets[0].Name != "other" {
			return fmt.Errorf("the account lists %v", account.Secrets)
		}
		return nil
	})
	if code, body := s.do(t, "DELETE", base+"serviceaccounts/jane", ""); code != 200 {
		t.Fatalf("unexpected response: %d %s", code, body)
	}
	s.awaitCode(t, base+"secrets/two", 404)
	for name, token := range tokens {
		if got := whoami(t, s, token); got != "" {
			t.Errorf("the token %s still belongs to %q", name, got)
		}
	}
}

// TestLegacyTokens checks that unused generated tokens are first marked as invalid and later deleted. Tokens
// that users have created, that pods mount, or that were used recently do not change.
func TestLegacyTokens(t *testing.T) {
	t.Parallel()
	config := Config{}
	config.ControlPlane.Controllers.LegacyTokenCleanUpPeriod = time.Nanosecond
	s := start(t, config)
	const base = "/api/v1/namespaces/default/"
	s.awaitAccount(t, "default")
	now := time.Now().UTC()
	day := func(days int) string { return now.AddDate(0, 0, days).Format(time.DateOnly) }
	data := base64.StdEncoding.EncodeToString([]byte("x"))
	var listed []string
	for _, secret := range []struct{ name, labels string }{
		{"unused", ""}, {"marked", `"kubernetes.io/legacy-token-invalid-since":"` + day(-3) + `"`},
		{"marked-odd", `"kubernetes.io/legacy-token-invalid-since":"long-ago"`},
		{"used-before", `"kubernetes.io/legacy-token-last-used":"` + day(-3) + `"`},
		{"used", `"kubernetes.io/legacy-token-last-used":"` + day(1) + `","kubernetes.io/legacy-token-invalid-since":"` + day(-3) + `"`},
		{"used-odd", `"kubernetes.io/legacy-token-last-used":"now","kubernetes.io/legacy-token-invalid-since":"` + day(-3) + `"`},
		{"mounted", `"kubernetes.io/legacy-token-invalid-since":"` + day(-3) + `"`},
		{"by-hand", `"kubernetes.io/legacy-token-invalid-since":"` + day(-3) + `"`},
	} {
		s.create(t, base+"secrets", `{"metadata":{"name":"`+secret.name+`","annotations":{"kubernetes.io/service-account.name":"default"},"labels":{`+secret.labels+`}},
			"type":"kubernetes.io/service-account-token","data":{"token":"`+data+`"}}`)
		if secret.name != "by-hand" {
			listed = append(listed, `{"name":"`+secret.name+`"}`)
		}
	}
	patch := func(path, body string) {
		t.Helper()
		if got := exchange(t, s.admin, "PATCH", s.URL+path, body, nil, "Content-Type", "application/merge-patch+json"); got != "200" {
			t.Fatalf("PATCH %s: %s", path, got)
		}
	}
	patch(base+"serviceaccounts/default", `{"secrets":[`+strings.Join(listed, ",")+`]}`)
	s.create(t, base+"pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","secret":{"secretName":"mounted"}}]}}`)
	const tracking = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"
	// Creation times have a resolution of one second, so repeatedly trigger the controller until all tokens are
	// old enough.
	n := 0
	testserver.Eventually(t, time.Minute, func() error {
		n++
		patch(tracking, fmt.Sprintf(`{"data":{"since":"2020-01-01"},"metadata":{"labels":{"n":"%d"}}}`, n))
		for name, want := range map[string]string{
			"unused": "marked", "marked": "gone", "marked-odd": "marked", "used-before": "marked",
			"used": "as it was", "used-odd": "as it was", "mounted": "as it was", "by-hand": "as it was",
		} {
			var secret corev1.Secret
			got := "gone"
			if code := exchange(t, s.admin, "GET", s.URL+base+"secrets/"+name, "", &secret); code == "200" {
				got = "as it was"
				if since := secret.Labels["kubernetes.io/legacy-token-invalid-since"]; since != "long-ago" && since > day(-1) {
					got = "marked"
				}
			}
			if got != want {
				return fmt.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		return nil
	})
}
