package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpenID(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	status, body := fetch(t, s.admin, s.URL+openIDConfigurationPath)
	var configuration openIDConfiguration
	if err := json.Unmarshal([]byte(body), &configuration); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	want := openIDConfiguration{
		Issuer: defaultIssuer, KeysURI: s.URL + openIDKeysPath, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}, Algorithms: []string{"ES256"},
	}
	if diff := cmp.Diff(want, configuration); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	status, body = fetch(t, s.admin, s.URL+openIDKeysPath, "Accept", "application/jwk-set+json")
	var keys struct{ Keys []webKey }
	if err := json.Unmarshal([]byte(body), &keys); err != nil || status != http.StatusOK || len(keys.Keys) != 1 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if key := keys.Keys[0]; key.Algorithm != "ES256" || len(key.X) != 43 || len(key.Y) != 43 || len(key.ID) != 43 {
		t.Errorf("%+v", key)
	}
	if status, body = fetch(t, s.admin, s.URL+openIDKeysPath, "Accept", "application/json"); status != http.StatusNotAcceptable || !strings.Contains(body, "Available representations: application/jwk-set+json") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ = fetch(t, client(t, nil), s.URL+openIDKeysPath); status != http.StatusForbidden {
		t.Errorf("somebody unknown: %d", status)
	}
}
