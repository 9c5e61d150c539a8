package resource

import (
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	declaredv1alpha3 "mainstay.dev/mainstay/internal/apis/builtin/declarative/resource/v1alpha3"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validatePoolRequest(f validation.Field, request, old *resourcev1alpha3.ResourcePoolStatusRequest) {
	validation.ValidateDeclared(f, declaredv1alpha3.Validate_ResourcePoolStatusRequest, request, old, "")
}

// validatePoolRequestStatus validates a new status, and rejects changes to an existing status.
func validatePoolRequestStatus(f validation.Field, request, old *resourcev1alpha3.ResourcePoolStatusRequest) {
	at := f.Child("status")
	switch {
	case old.Status != nil:
		validation.Immutable(at, request.Status, old.Status)
	case request.Status != nil:
		at = at.Child("conditions")
		at.Add(metav1validation.ValidateConditions(request.Status.Conditions, at.Path())...)
	}
	validation.ValidateDeclared(f, declaredv1alpha3.Validate_ResourcePoolStatusRequest, request, old, "status")
}
