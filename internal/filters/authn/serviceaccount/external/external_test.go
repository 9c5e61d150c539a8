package external

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
	api "k8s.io/externaljwt/apis/v1"

	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount/external/externaltest"
)

func open(t *testing.T, p *externaltest.Plugin) (*Keys, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Open(t.Context(), Config{Socket: p.Socket, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, registry
}

func claims() *serviceaccount.Claims {
	return &serviceaccount.Claims{Claims: jwt.Claims{Issuer: "i"}, Audience: []string{"a"}}
}

// TestKeys checks that tokens are valid as long as the plugin returns their keys, including keys
// that the server has not fetched yet.
func TestKeys(t *testing.T) {
	t.Parallel()
	p := externaltest.New(t)
	k, registry := open(t, p)
	token, err := k.Sign(t.Context(), claims())
	if err != nil {
		t.Fatal(err)
	}
	verified := func(token string) bool {
		claims, err := k.Verify(t.Context(), serviceaccount.Parse(token))
		return err == nil && claims.Issuer == "i"
	}
	if !verified(token) || k.MaxLifetime() != externaltest.MaxExpiration {
		t.Errorf("the token is invalid, or the maximum lifetime is %s", k.MaxLifetime())
	}
	before := k.Generation()
	if err := k.fetch(t.Context()); err != nil || k.Generation() != before {
		t.Errorf("the same keys have another generation: %v", err)
	}
	p.Rotate(t, "2")
	rotated, err := k.Sign(t.Context(), claims())
	if err != nil || !verified(rotated) || !verified(token) || k.Generation() == before {
		t.Errorf("after a key was added: %v", err)
	}
	if keys := k.Published(); len(keys.Keys) != 2 || keys.MaxAge <= 0 || keys.MaxAge > time.Hour {
		t.Errorf("published keys %+v, want 2 with a maximum age of at most 1 h", keys)
	}
	p.SetResponses(func(a *externaltest.Responses) { a.Keys = a.Keys[1:] })
	p.Rotate(t, "3")
	if token3, err := k.Sign(t.Context(), claims()); err != nil || !verified(token3) || verified(token) {
		t.Errorf("after a key was removed: %v", err)
	}
	p.SetResponses(func(a *externaltest.Responses) { a.Fail = true })
	if _, err := k.Sign(t.Context(), claims()); err == nil || !strings.Contains(err.Error(), "while signing jwt") || !verified(rotated) || verified(token) {
		t.Errorf("without the plugin: %v", err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 5 {
		t.Errorf("gather the metrics: %v, error %v; want 5 families", families, err)
	}
}

// TestRefresh checks that keys are fetched again at the interval that the plugin specifies.
func TestRefresh(t *testing.T) {
	t.Parallel()
	p := externaltest.New(t)
	p.SetResponses(func(a *externaltest.Responses) { a.RefreshHint = 1 })
	k, _ := open(t, p)
	p.Rotate(t, "2")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(k.Published().Keys) != 2 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the key was not fetched")
		}
	}
}

// TestLongDurations checks that a plugin may specify unlimited durations for its keys and tokens.
func TestLongDurations(t *testing.T) {
	t.Parallel()
	p := externaltest.New(t)
	p.SetResponses(func(a *externaltest.Responses) { a.RefreshHint, a.MaxSeconds = math.MaxInt64, math.MaxInt64 })
	k, _ := open(t, p)
	const year = 365 * 24 * time.Hour
	if age := k.Published().MaxAge; age < 100*year {
		t.Errorf("the keys are fetched again after %s", age)
	}
	if lifetime := k.MaxLifetime(); lifetime < 100*year {
		t.Errorf("maximum lifetime of tokens: %s", lifetime)
	}
}

// TestHeaders checks that tokens with invalid headers are rejected.
func TestHeaders(t *testing.T) {
	t.Parallel()
	p := externaltest.New(t)
	k, _ := open(t, p)
	for header, want := range map[string]string{
		`{"alg":"ES256","kid":"1"}`:                                             "bad type",
		`{"alg":"ES256","typ":"JWT"}`:                                           "key id missing",
		`{"alg":"none","typ":"JWT","kid":"1"}`:                                  `bad signing algorithm "none"`,
		`{"alg":"HS256","typ":"JWT","kid":"1"}`:                                 `bad signing algorithm "HS256"`,
		`{"alg":"ES256","typ":"JWT","kid":"1","jwk":{}}`:                        "while parsing header JSON",
		`{"alg":"ES256","typ":"JWT","kid":"` + strings.Repeat("k", 1025) + `"}`: "key id longer than 1 kb",
		`nonsense`: "while parsing header JSON",
	} {
		p.SetResponses(func(a *externaltest.Responses) { a.Header = header })
		if token, err := k.Sign(t.Context(), claims()); err == nil || !strings.Contains(err.Error(), "while validating header: "+want) {
			t.Errorf("%.60s: %s, %v", header, token, err)
		}
	}
	p.SetResponses(func(a *externaltest.Responses) { a.Header, a.Unsigned = "", true })
	if token, err := k.Sign(t.Context(), claims()); err == nil || err.Error() != "empty signature returned" {
		t.Errorf("unsigned: %s, %v", token, err)
	}
	p.Rotate(t, "2")
	p.SetResponses(func(a *externaltest.Responses) { a.Unsigned, a.Keys[1].ExcludeFromOidcDiscovery = false, true })
	if token, err := k.Sign(t.Context(), claims()); err == nil || !strings.Contains(err.Error(), "key used for signing JWT (kid: 2) is excluded from OIDC discovery docs") {
		t.Errorf("a key that is only for verification: %s, %v", token, err)
	}
	if keys := k.Published().Keys; len(keys) != 1 {
		t.Errorf("%d keys are published", len(keys))
	}
}

// TestOpenErrors checks that Open rejects plugins with invalid data.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*externaltest.Responses){
		"while performing initial cache fill: while fetching token verification keys: while getting externally supported jwt signing keys": func(a *externaltest.Responses) { a.Fail = true },
		"found invalid refresh hint (0s)":           func(a *externaltest.Responses) { a.RefreshHint = 0 },
		"found no keys":                             func(a *externaltest.Responses) { a.Keys = nil },
		"invalid data timestamp":                    func(a *externaltest.Responses) { a.DataTimestamp = &timestamppb.Timestamp{Nanos: -1} },
		`found invalid public key id ""`:            func(a *externaltest.Responses) { a.Keys = []*api.Key{{}} },
		"found empty public key":                    func(a *externaltest.Responses) { a.Keys = []*api.Key{{KeyId: "1"}} },
		"while parsing external public keys":        func(a *externaltest.Responses) { a.Keys[0].Key = []byte("x") },
		"(599s) is less than acceptable (min 600s)": func(a *externaltest.Responses) { a.MaxSeconds = 599 },
	} {
		p := externaltest.New(t)
		p.SetResponses(change)
		if k, err := Open(t.Context(), Config{Socket: p.Socket}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if k != nil {
				_ = k.Close()
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Config{Socket: t.TempDir() + "/none"}); err == nil {
		t.Error("Open returned no error without a plugin")
	}
}
