package webhook_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/egress/webhook"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	at := field.NewPath("service")
	path := func(path string) *string { return &path }
	for name, test := range map[string]struct {
		errs field.ErrorList
		want string // the first error
	}{
		"URL":         {webhook.ValidateURL("https://a:8443/b", at), ""},
		"plain":       {webhook.ValidateURL("http://a", at), `service: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`},
		"query":       {webhook.ValidateURL("https://a?b", at), `service: Invalid value: "b": query parameters are not permitted in the URL`},
		"service":     {webhook.ValidateService("a", "b", nil, 443, at), ""},
		"nameless":    {webhook.ValidateService("", "b", nil, 443, at), "service.namespace: Required value"},
		"nowhere":     {webhook.ValidateService("a", "", nil, 443, at), "service.name: Required value"},
		"no port":     {webhook.ValidateService("a", "b", nil, 0, at), "service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"},
		"path":        {webhook.ValidateService("a", "b", path("/c/d/"), 443, at), ""},
		"no path":     {webhook.ValidateService("a", "b", path(""), 443, at), ""},
		"half a path": {webhook.ValidateService("a", "b", path("/c//d"), 443, at), `service.path: Invalid value: "/c//d": segment[1] may not be empty`},
	} {
		got := ""
		if len(test.errs) > 0 {
			got = test.errs[0].Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
