package controlplane

import (
	"slices"
	"testing"

	"mainstay.dev/mainstay/admission"
)

// TestAdmissionPlugins: the list names each plugin as it names itself.
func TestAdmissionPlugins(t *testing.T) {
	t.Parallel()
	i := instanceOf(t, newPlane(t, newEnv(t), "/plugins"))
	seen := map[string]bool{}
	for _, p := range admissionPlugins() {
		if seen[p.name] {
			t.Errorf("%s is listed twice", p.name)
		}
		seen[p.name] = true
		if p.open == nil {
			continue
		}
		if opened := p.open(i); opened == nil || opened.Name() != p.name {
			t.Errorf("%s opens %v", p.name, opened)
		}
	}
}

// TestAdmissionOfOptions: flags add plugins and take them away; their order stays.
func TestAdmissionOfOptions(t *testing.T) {
	t.Parallel()
	i := *instanceOf(t, newPlane(t, newEnv(t), "/plugins"))
	i.options.DisableAdmissionPlugins = []string{"Priority", "ServiceAccount"}
	if err := i.options.Check(); err != nil {
		t.Error(err)
	}
	if got := names(i.admission()); slices.Contains(got, "Priority") || !slices.Contains(got, "NamespaceLifecycle") {
		t.Errorf("plugins %s", got)
	}
}

func names(chain admission.Chain) []string {
	var names []string
	for _, p := range chain {
		names = append(names, p.Name())
	}
	return names
}

func instanceOf(t testing.TB, c *ControlPlane) *instance {
	t.Helper()
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.opened.Load()
}
