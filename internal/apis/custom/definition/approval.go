package definition

import (
	"fmt"
	"net/url"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Approval is the state of a definition's API approval annotation.
type Approval int

// The states of approval (KEP-2337).
const (
	ApprovalMissing Approval = iota
	ApprovalInvalid
	ApprovalBypassed
	Approved
)

// IsProtected reports whether a group is a protected community group (KEP-2337), below k8s.io or
// kubernetes.io. Definitions in such groups require an approval annotation.
func IsProtected(group string) bool {
	for _, domain := range []string{"k8s.io", "kubernetes.io"} {
		if group == domain || strings.HasSuffix(group, "."+domain) {
			return true
		}
	}
	return false
}

// ApprovalOf returns the state of the approval annotation, and the message of the corresponding
// condition. annotations may be nil.
func ApprovalOf(annotations map[string]string) (Approval, string) {
	const name = apiextensionsv1.KubeAPIApprovedAnnotation
	const see = ", see https://github.com/kubernetes/enhancements/pull/1111"
	value := annotations[name]
	if value == "" {
		return ApprovalMissing, fmt.Sprintf("protected groups must have approval annotation %q%s", name, see)
	}
	if strings.HasPrefix(value, "unapproved") {
		return ApprovalBypassed, fmt.Sprintf("not approved: %q", value)
	}
	if u, err := url.ParseRequestURI(value); err == nil && u.Host != "" && u.Scheme != "" {
		return Approved, fmt.Sprintf("approved in %v", value)
	}
	return ApprovalInvalid, fmt.Sprintf(`protected groups must have approval annotation %q with either a URL or a reason starting with "unapproved"%s`, name, see)
}

// approval validates the API approval annotation of a definition in a protected group, unless its approval
// state is the same as in old. old may be nil.
func (v *validator) approval(old *apiextensionsv1.CustomResourceDefinition) {
	if !IsProtected(v.crd.Spec.Group) {
		return
	}
	state, message := ApprovalOf(v.crd.Annotations)
	if old != nil {
		if before, _ := ApprovalOf(old.Annotations); before == state {
			return
		}
	}
	at := field.NewPath("metadata", "annotations").Key(apiextensionsv1.KubeAPIApprovedAnnotation)
	switch state {
	case ApprovalMissing:
		v.add(field.Required(at, message))
	case ApprovalInvalid:
		v.add(field.Invalid(at, v.crd.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation], message))
	}
}
