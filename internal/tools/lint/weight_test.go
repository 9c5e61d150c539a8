package lint

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// heavy returns the reason why the binary must not link a package, or "". Importing an API package links all
// its types, because its init functions register them.
func heavy(path string) (reason string) {
	switch {
	case path == "k8s.io/api/scheduling/v1alpha3":
		return "" // k8s.io/api/batch/v1 imports it
	case slices.Contains([]string{
		// These versions have kinds or fields that the stable versions do not have.
		"k8s.io/api/apiserverinternal/v1alpha1", "k8s.io/api/certificates/v1beta1", "k8s.io/api/coordination/v1beta1",
		"k8s.io/api/lifecycle/v1alpha1", "k8s.io/api/resource/v1alpha3", "k8s.io/api/resource/v1beta1", "k8s.io/api/scheduling/v1beta1",
	}, path):
		return ""
	case regexp.MustCompile(`^k8s\.io/api/[a-z]+/v[0-9]+(alpha|beta)[0-9]+$`).MatchString(path):
		return "use schema.GroupVersion to refer to a version"
	case inside(path, "k8s.io/client-go/util/jsonpath"), inside(path, "k8s.io/client-go/third_party"):
		return ""
	case inside(path, "k8s.io/client-go"):
		return "use net/http; the binary must not contain client-go"
	case path == "html/template", path == "golang.org/x/net/trace":
		return "templates call methods by name, so the linker keeps all methods"
	}
	return ""
}

// TestWeight checks that the released binary, which is built with the tag grpcnotrace, does not link heavy
// packages.
func TestWeight(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-tags=grpcnotrace", "-deps", module+"/cmd/mainstay").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if reason := heavy(path); reason != "" {
			t.Errorf("mainstay depends on %s: %s", path, reason)
		}
	}
	for path, want := range map[string]bool{
		"k8s.io/api/rbac/v1beta1":         true,
		"k8s.io/api/rbac/v1":              false,
		"k8s.io/client-go/rest":           true,
		"k8s.io/client-go/util/jsonpath":  false,
		"k8s.io/apimachinery/pkg/runtime": false,
	} {
		if got := heavy(path) != ""; got != want {
			t.Errorf("heavy(%s): %t, want %t", path, got, want)
		}
	}
}
