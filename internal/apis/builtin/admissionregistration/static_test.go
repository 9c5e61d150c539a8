package admissionregistration

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// TestStaticNameWarnings checks that a new object causes a warning if other servers would reject its name.
func TestStaticNameWarnings(t *testing.T) {
	t.Parallel()
	off, err := feature.Defaults().Parse("ManifestBasedAdmissionControlConfig=false")
	if err != nil {
		t.Fatal(err)
	}
	object := func(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		p.Name = name
		return p
	}
	for _, tt := range []struct {
		gates feature.Gates
		name  string
		old   *admissionregistrationv1.ValidatingAdmissionPolicy
		warns bool
	}{
		{off, "a.static.k8s.io", nil, true},
		{off, "a.static.k8s.io", object("a.static.k8s.io"), false},
		{off, "a.example.com", nil, false},
		{feature.Defaults(), "a.static.k8s.io", nil, false}, // rejected without a warning
	} {
		op := &builtin.Operation{Env: &builtin.Env{Gates: tt.gates}}
		got := warnOfStatic(op, object(tt.name), tt.old)
		if (len(got) == 1) != tt.warns || tt.warns && !strings.HasPrefix(got[0], `metadata.name: names ending with ".static.k8s.io" are reserved`) {
			t.Errorf("%s: warnings %q, want a warning: %t", tt.name, got, tt.warns)
		}
	}
}
