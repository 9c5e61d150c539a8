package authorization

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func specPath() *field.Path { return field.NewPath("spec") }

// shown returns the attributes in the form in which kube-apiserver quotes them in errors, with the names of Go
// fields.
func shown(attributes *authorizationv1.NonResourceAttributes) any {
	return struct{ Path, Verb string }{attributes.Path, attributes.Verb}
}

// validateSpec requires that a spec describes exactly one action.
func validateSpec(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	switch resource, path := spec.ResourceAttributes, spec.NonResourceAttributes; {
	case resource != nil && path != nil:
		return field.ErrorList{field.Invalid(specPath().Child("nonResourceAttributes"), shown(path), "cannot be specified in combination with resourceAttributes")}
	case resource == nil && path == nil:
		return field.ErrorList{field.Invalid(specPath().Child("resourceAttributes"), nil, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

func validateUser(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	if spec.User != "" || len(spec.Groups) > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(specPath().Child("user"), spec.User, "at least one of user or group must be specified")}
}

// validateMetadata rejects all metadata except managed fields, which are added by the server.
func validateMetadata(metadata metav1.ObjectMeta, message string) field.ErrorList {
	rest := metadata
	rest.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, rest) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), metadata, message)}
}

// maxErrors is the maximum number of errors that are reported for selectors. It is limited because any user
// can create reviews, and a review can have 100,000 requirements.
const maxErrors = 1000

func validateSelectors(resource *authorizationv1.ResourceAttributes) field.ErrorList {
	if resource == nil {
		return nil
	}
	var errs field.ErrorList
	// Unknown operators are accepted here and dropped later, so that newer clients get a response.
	if s := resource.FieldSelector; s != nil {
		path := specPath().Child("resourceAttributes", "fieldSelector")
		errs = append(errs, validateForm(path, s.RawSelector, len(s.Requirements))...)
		for i, requirement := range s.Requirements {
			if len(errs) >= maxErrors {
				return errs
			}
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(requirement,
				metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	if s := resource.LabelSelector; s != nil {
		path := specPath().Child("resourceAttributes", "labelSelector")
		errs = append(errs, validateForm(path, s.RawSelector, len(s.Requirements))...)
		for i, requirement := range s.Requirements {
			if len(errs) >= maxErrors {
				return errs
			}
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(requirement,
				metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// validateForm requires that exactly one of the two forms of a selector is used.
func validateForm(path *field.Path, raw string, requirements int) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	return nil
}
