package definition_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

const at = "spec.conversion.webhookClientConfig"

// behind returns the client config of a webhook that is reached through a Service. An empty path or port is
// omitted.
func behind(namespace, name, path string, port int32) *apiextensionsv1.WebhookClientConfig {
	service := &apiextensionsv1.ServiceReference{Namespace: namespace, Name: name}
	if path != "" {
		service.Path = &path
	}
	if port != 0 {
		service.Port = &port
	}
	return &apiextensionsv1.WebhookClientConfig{Service: service}
}

func atURL(url string) *apiextensionsv1.WebhookClientConfig {
	return &apiextensionsv1.WebhookClientConfig{URL: &url}
}

func withWebhook(config *apiextensionsv1.WebhookClientConfig, reviews ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := definitionOf("v1")
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: config, ConversionReviewVersions: reviews},
	}
	definition.Default(crd)
	definition.Prepare(crd)
	return crd
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	both := behind("a", "b", "", 0)
	both.URL = atURL("https://a").URL
	for _, test := range []struct {
		name    string
		config  *apiextensionsv1.WebhookClientConfig
		reviews []string
		want    string
	}{
		{"by URL", atURL("https://example.com:8443/convert"), []string{"v1"}, ""},
		{"by service", behind("a", "b", "/c/d", 0), []string{"v9", "v1beta1"}, ""},
		{"root of a service", behind("a", "b", "/", 8443), []string{"v1"}, ""},
		{"neither URL nor service", &apiextensionsv1.WebhookClientConfig{}, []string{"v1"}, at + ": Required value: exactly one of url or service is required"},
		{"both URL and service", both, []string{"v1"}, at + ": Required value: exactly one of url or service is required"},
		{"http", atURL("http://a"), []string{"v1"}, at + `.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`},
		{"no host", atURL("https:///c"), []string{"v1"}, at + `.url: Invalid value: "": host must be specified; desired format: https://host[/path]`},
		{"user, query and fragment", atURL("https://u@a/?x=1#y"), []string{"v1"}, "[" + at + `.url: Invalid value: "u": user information is not permitted in the URL, ` +
			at + `.url: Invalid value: "y": fragments are not permitted in the URL, ` + at + `.url: Invalid value: "x=1": query parameters are not permitted in the URL]`},
		{"malformed URL", atURL("https://a b"), []string{"v1"}, at + `.url: Required value: url must be a valid URL: parse "https://a b": invalid character " " in host name; desired format: https://host[/path]`},
		{"no names", behind("", "", "", 70000), []string{"v1"}, "[" + at + ".service.name: Required value, " +
			at + ".service.namespace: Required value, " +
			at + ".service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive]"},
		{"empty path segments", behind("a", "b", "//", 0), []string{"v1"}, at + `.service.path: Invalid value: "//": segment[0] may not be empty`},
		{"invalid path segments", behind("a", "b", "c/d_", 0), []string{"v1"}, "[" + at + `.service.path: Invalid value: "c/d_": must start with a '/', ` +
			at + `.service.path: Invalid value: "c/d_": segment[0] may not be empty, ` +
			at + `.service.path: Invalid value: "c/d_": segment[1]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ` +
			`and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]`},
		{"no reviews", atURL("https://a"), nil, "spec.conversion.conversionReviewVersions: Required value"},
		{"unknown reviews", atURL("https://a"), []string{"v2"}, `spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := definition.Validate(t.Context(), withWebhook(test.config, test.reviews...)).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%q\nwant %q", got, test.want)
			}
		})
	}
}

// TestCABundles checks that invalid bundles are accepted until the definition is established, and
// afterwards only if the old bundle was invalid.
func TestCABundles(t *testing.T) {
	t.Parallel()
	none, some := atURL("https://a"), atURL("https://a")
	some.CABundle = []byte("no certificate")
	crd := withWebhook(some, "v1")
	if errs := definition.Validate(t.Context(), crd); len(errs) > 0 || !definition.InvalidCABundle(crd) {
		t.Errorf("errors %v, want none and InvalidCABundle to return true", errs)
	}
	old := withWebhook(none, "v1")
	if errs := definition.ValidateUpdate(t.Context(), crd, old); len(errs) > 0 {
		t.Errorf("update of a definition that is not established: %v", errs)
	}
	old.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	errs := definition.ValidateUpdate(t.Context(), crd, old)
	if len(errs) != 1 || errs[0].Field != at+".caBundle" || errs[0].Detail != "unable to load root certificates: unable to parse bytes as PEM block" {
		t.Errorf("update of an established definition: %v", errs)
	}
	old.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte("none either")
	if errs := definition.ValidateUpdate(t.Context(), crd, old); len(errs) > 0 {
		t.Errorf("update of an established definition with an invalid bundle: %v", errs)
	}
}

// TestCABundleFaults checks kube-apiserver's messages for invalid bundles.
func TestCABundleFaults(t *testing.T) {
	t.Parallel()
	block := func(kind, headers, content string) string {
		return "-----BEGIN " + kind + "-----\n" + headers + content + "\n-----END " + kind + "-----\n"
	}
	for bundle, want := range map[string]string{
		"nothing of the kind":                    "unable to parse bytes as PEM block",
		block("CERTIFICATE", "", "AAAA"):         "failed to parse certificate: x509: ",
		block("PUBLIC KEY", "", "AAAA"):          "no valid certificate authority data seen",
		block("PUBLIC KEY", "", "AAAA") + "x":    "unable to parse bytes as PEM block",
		block("CERTIFICATE", "a: b\n\n", "AA=="): "no valid certificate authority data seen",
	} {
		old, crd := withWebhook(atURL("https://a"), "v1"), withWebhook(atURL("https://a"), "v1")
		old.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		crd.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte(bundle)
		errs := definition.ValidateUpdate(t.Context(), crd, old)
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Detail, "unable to load root certificates: "+want) {
			t.Errorf("%q: %v, want %q", bundle, errs, want)
		}
	}
}

// TestReviewsAsBefore checks that unknown review versions are tolerated if they are unchanged.
func TestReviewsAsBefore(t *testing.T) {
	t.Parallel()
	crd := withWebhook(atURL("https://a"), "v9")
	if errs := definition.ValidateUpdate(t.Context(), crd, withWebhook(atURL("https://a"), "v9")); len(errs) > 0 {
		t.Errorf("unchanged review versions: %v", errs)
	}
	if errs := definition.ValidateUpdate(t.Context(), crd, withWebhook(atURL("https://a"), "v1")); len(errs) != 1 {
		t.Errorf("changed review versions: %v, want one error", errs)
	}
}
