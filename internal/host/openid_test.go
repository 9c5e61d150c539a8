package host

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestOpenID(t *testing.T) {
	t.Parallel()
	const keysPath = "/openid/v1/jwks"
	s := start(t, Config{})
	status, body := fetch(t, s.admin, s.URL+"/.well-known/openid-configuration")
	var configuration struct {
		Issuer     string
		KeysURI    string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := json.Unmarshal([]byte(body), &configuration); err != nil || status != http.StatusOK {
		t.Fatalf("get the configuration: %d %s: %v", status, body, err)
	}
	if configuration.Issuer != "https://kubernetes.default.svc.cluster.local" || configuration.KeysURI != s.URL+keysPath || !slices.Equal(configuration.Algorithms, []string{"ES256"}) {
		t.Errorf("configuration %s", body)
	}
	status, body = fetch(t, s.admin, s.URL+keysPath, "Accept", "application/jwk-set+json")
	var keys struct {
		Keys []struct {
			ID        string `json:"kid"`
			Algorithm string `json:"alg"`
			X, Y      string
		}
	}
	if err := json.Unmarshal([]byte(body), &keys); err != nil || status != http.StatusOK || len(keys.Keys) != 1 {
		t.Fatalf("get the keys: %d %s: %v", status, body, err)
	}
	if key := keys.Keys[0]; key.Algorithm != "ES256" || len(key.X) != 43 || len(key.Y) != 43 || len(key.ID) != 43 {
		t.Errorf("published key %+v", key)
	}
	if status, body = fetch(t, s.admin, s.URL+keysPath, "Accept", "application/json"); status != http.StatusNotAcceptable || !strings.Contains(body, "Available representations: application/jwk-set+json") {
		t.Errorf("get the keys as application/json: %d %s, want code 406", status, body)
	}
	for _, path := range []string{"/.well-known/openid-configuration", keysPath} { // as in the paths of the OpenAPI document
		_, want := fetch(t, s.admin, s.URL+path)
		if status, body = fetch(t, s.admin, s.URL+path+"/"); status != http.StatusOK || body != want {
			t.Errorf("%s/: %d %s, want %s", path, status, body, want)
		}
	}
	if status, _ = fetch(t, client(t, nil), s.URL+keysPath); status != http.StatusForbidden {
		t.Errorf("anonymous: %d", status)
	}
}
