package names

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestForms compares the results with the validation of apimachinery.
func TestForms(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, a := range []string{"", "a", "A", "0", "-", ".", "_", "/", "ä", " ", "a-b", "a.b", "a/b", strings.Repeat("a", 63), strings.Repeat("a", 64)} {
		for _, b := range []string{"", "a", "Z", "9", "-", ".", "_", "/", "a..b", "a.-b", strings.Repeat("b.", 126) + "b"} {
			texts = append(texts, a+b, b+a, a+b+a)
		}
	}
	for _, form := range []struct {
		name  string
		plain func(string) bool
		rule  func(string) []string
	}{
		{"label", IsLabel, validation.IsDNS1123Label},
		{"subdomain", IsSubdomain, validation.IsDNS1123Subdomain},
		{"label value", IsLabelValue, validation.IsValidLabelValue},
		{"qualified name", IsQualified, validation.IsQualifiedName},
	} {
		for _, text := range texts {
			valid := len(form.rule(text)) == 0
			if plain := form.plain(text); plain && !valid || !plain && valid && text != "" {
				t.Errorf("%q is a %s: %t, want %t", text, form.name, plain, valid)
			}
		}
	}
}
