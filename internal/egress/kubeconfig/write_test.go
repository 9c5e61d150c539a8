package kubeconfig_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

// TestNamespace checks that a namespace is written as a YAML string, even if it looks like a
// number, boolean or null.
func TestNamespace(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"shop", "42", "1e3", "0x10", "true", "null"} {
		var read struct {
			Contexts []struct {
				Context struct {
					Namespace any `json:"namespace"`
				} `json:"context"`
			} `json:"contexts"`
		}
		entry := kubeconfig.Entry{Server: "https://a", User: "u", Token: "t", Namespace: namespace}
		if err := yaml.Unmarshal(entry.Text(), &read); err != nil {
			t.Fatal(err)
		}
		if got := read.Contexts[0].Context.Namespace; got != namespace {
			t.Errorf("%T %v, want the string %q", got, got, namespace)
		}
	}
}
