package admissionregistration

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// staticSuffix is the suffix of the names of configurations in files.
const staticSuffix = ".static.k8s.io"

func isStatic(name string) bool { return strings.HasSuffix(name, staticSuffix) }

func reservedName() string {
	return fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", staticSuffix)
}

// validateNotStatic rejects new objects with a name that is reserved for configurations in files.
func validateNotStatic(f validation.Field, name string, isNew bool) {
	if isNew && isStatic(name) && f.Enabled(feature.ManifestBasedAdmissionControlConfig) {
		f.Child("metadata").Child("name").Invalid(name, reservedName())
	}
}

// warnOfStatic is a hook for Strategy.Warnings. It warns about a name that servers with
// configurations in files reject.
func warnOfStatic[T any, P interface {
	*T
	metav1.Object
}](op *builtin.Operation, obj, old *T) []string {
	if old != nil || !isStatic(P(obj).GetName()) || op.Env.Gates.Enabled(feature.ManifestBasedAdmissionControlConfig) {
		return nil
	}
	return []string{"metadata.name: " + reservedName()}
}
