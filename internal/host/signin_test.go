package host

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/filters/authn/oidc/oidctest"
	"mainstay.dev/mainstay/test/testserver"
)

// awaitSignIns waits until the console offers exactly the given providers for signing in, and its content
// security policy permits requests to exactly the given origins, which are separated by spaces.
func awaitSignIns(t *testing.T, s *running, origins string, issuers ...*oidctest.Issuer) {
	t.Helper()
	config := `{"providers":[`
	for i, issuer := range issuers {
		if i > 0 {
			config += ","
		}
		config += fmt.Sprintf(`{"issuer":%q,"clientID":"kube","authorizationEndpoint":%q,"tokenEndpoint":%q}`, issuer.URL, issuer.URL+"/authorize", issuer.TokenEndpoint)
	}
	config += "]}"
	testserver.Eventually(t, time.Minute, func() error {
		if _, body := fetch(t, client(t, nil), s.URL+"/console/config.json"); strings.TrimSpace(body) != config {
			return fmt.Errorf("the configuration is %s, want %s", body, config)
		}
		response, err := client(t, nil).Get(s.URL + "/console/")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if policy := response.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src "+strings.TrimSpace("'self' "+origins)+";") {
			return fmt.Errorf("the policy is %s, want the origins %s", policy, origins)
		}
		return nil
	})
}

// TestSignIns checks that the console offers the usable providers of an AuthenticationConfiguration, and that
// it applies changes of the file.
func TestSignIns(t *testing.T) {
	t.Parallel()
	first, second, workloads, down := oidctest.New(t), oidctest.New(t), oidctest.New(t), oidctest.New(t)
	first.TokenEndpoint, second.TokenEndpoint, down.TokenEndpoint = "https://token.example.com/first", second.URL+"/token", "https://down.example.com"
	down.Down.Store(true)
	configuration := func(issuers ...*oidctest.Issuer) string {
		text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n"
		for _, issuer := range issuers {
			ca, err := json.Marshal(issuer.CA())
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf("- issuer: {url: %s, audiences: [kube, other], audienceMatchPolicy: MatchAny, certificateAuthority: %s}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n", issuer.URL, ca)
		}
		return text
	}
	file := writeFile(t, "config.yaml", configuration(first, down, workloads, second))
	s := start(t, Config{Authentication: AuthenticationConfig{JWT: JWTConfig{ConfigFile: file}}})
	awaitSignIns(t, s, "https://token.example.com "+second.URL, first, second)
	if err := os.WriteFile(file, []byte(configuration(second)), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitSignIns(t, s, second.URL, second)
	if err := os.WriteFile(file, []byte(configuration(workloads)), 0o600); err != nil {
		t.Fatal(err)
	}
	awaitSignIns(t, s, "")
}
