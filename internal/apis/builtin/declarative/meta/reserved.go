package meta

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ReservedDomain returns an error if the domain of a name, the part before the slash, is reserved for
// Kubernetes.
func ReservedDomain(path *field.Path, name string) field.ErrorList {
	domain, _, _ := strings.Cut(name, "/")
	domain = "." + strings.TrimRight(strings.ToLower(domain), ".")
	if strings.HasSuffix(domain, ".k8s.io") || strings.HasSuffix(domain, ".kubernetes.io") {
		return field.ErrorList{field.Invalid(path, name, "domain names *.k8s.io, *.kubernetes.io are reserved")}
	}
	return nil
}
