package controlplane

import (
	"testing"
)

// TestKeys checks which resources the keys of the root control plane and of declared control planes
// belong to.
func TestKeys(t *testing.T) {
	t.Parallel()
	keys := NewKeys("/registry")
	for key, want := range map[string]string{
		"/registry/pods/ns/p":                                         "pods",
		"/registry/services/specs/ns/s":                               "services",
		"/registry/example.com/widgets/ns/w":                          "widgets.example.com",
		"/registry/masterleases/1.2.3.4":                              "apiserveripinfo",
		"/registry.controlplanes/uid/identity":                        "secrets",
		"/registry.controlplanes/uid/registry/secrets/ns/s":           "secrets",
		"/registry.controlplanes/uid/registry/example.com/widgets/w":  "widgets.example.com",
		"/registry.controlplanes/uid/other":                           "",
		"/registry.controlplanes/uid":                                 "",
		"/registry.controlplanes/uid/registry":                        "",
		"/other/pods/ns/p":                                            "",
		"/registryX/pods/ns/p":                                        "",
		"/registry.controlplanes/uid/registry/masterleases/localhost": "apiserveripinfo",
	} {
		resource, found := keys.Resource(key)
		if got := resource.String(); found != (want != "") || found && got != want {
			t.Errorf("%s: %q %t, want %q", key, got, found, want)
		}
	}
}

// TestPathOf checks that each resource has one storage path.
func TestPathOf(t *testing.T) {
	t.Parallel()
	keys := NewKeys("/registry")
	for path, resource := range keys.paths {
		if got := keys.pathOf(resource); got != path {
			t.Errorf("%s has the path %s, and pathOf returns %s", resource, path, got)
		}
	}
}
