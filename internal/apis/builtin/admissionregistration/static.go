package admissionregistration

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// staticSuffix is the name suffix of configurations that are loaded from files.
const staticSuffix = ".static.k8s.io"

func isStatic(name string) bool { return strings.HasSuffix(name, staticSuffix) }

func reservedName() string {
	return fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", staticSuffix)
}

// validateNotStatic rejects a new object whose name is reserved for configurations that are loaded from files.
func validateNotStatic(f validation.Field, name string, isNew bool) {
	if isNew && isStatic(name) && f.Enabled(feature.ManifestBasedAdmissionControlConfig) {
		f.Child("metadata").Child("name").Invalid(name, reservedName())
	}
}

// warnOfStatic is a hook for Strategy.Warnings. It returns a warning if a new object has a name that is
// rejected by servers that load configurations from files.
func warnOfStatic[T any, P interface {
	*T
	metav1.Object
}](op *builtin.Operation, obj, old *T) []string {
	if old != nil || !isStatic(P(obj).GetName()) || op.Env.Gates.Enabled(feature.ManifestBasedAdmissionControlConfig) {
		return nil
	}
	return []string{"metadata.name: " + reservedName()}
}
