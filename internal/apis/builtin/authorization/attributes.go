package authorization

import (
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// attributesOf returns the authorizer attributes of a valid spec. It drops selectors and requirements that
// cannot be parsed, and returns the reasons as problems. Without them, the action applies to more objects, so
// dropping them cannot cause the authorizer to allow more.
func attributesOf(user *request.User, spec *authorizationv1.SubjectAccessReviewSpec) (attributes *authorizer.Attributes, problems []string) {
	if path := spec.NonResourceAttributes; path != nil {
		return &authorizer.Attributes{User: user, Verb: path.Verb, Path: path.Path}, nil
	}
	asked := spec.ResourceAttributes
	a := &authorizer.Attributes{
		User: user, Verb: asked.Verb, ResourceRequest: true, APIGroup: asked.Group, APIVersion: asked.Version,
		Namespace: asked.Namespace, Resource: asked.Resource, Subresource: asked.Subresource, Name: asked.Name,
	}
	if a.APIVersion == "" {
		a.APIVersion = "*"
	}
	if a.FieldSelectorRequirements, a.FieldSelectorParsingErr = fieldRequirements(asked.FieldSelector); a.FieldSelectorParsingErr != nil {
		problems = append(problems, ignored("fieldSelector", len(a.FieldSelectorRequirements)))
	}
	if a.LabelSelectorRequirements, a.LabelSelectorParsingErr = labelRequirements(asked.LabelSelector); a.LabelSelectorParsingErr != nil {
		problems = append(problems, ignored("labelSelector", len(a.LabelSelectorRequirements)))
	}
	return a, problems
}

func ignored(selector string, kept int) string {
	how := "ignored"
	if kept > 0 {
		how = "partially ignored"
	}
	return fmt.Sprintf("spec.resourceAttributes.%s %s due to parse error", selector, how)
}

// evaluationError joins the authorizer's error, if any, and the problems of the spec.
func evaluationError(err error, problems []string) string {
	if err != nil {
		problems = append([]string{err.Error()}, problems...)
	}
	return strings.Join(problems, "; ")
}

// labelRequirements returns the requirements that can be parsed. It returns an error if some of the
// requirements cannot be parsed.
func labelRequirements(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if s == nil {
		return nil, nil
	}
	if s.RawSelector != "" {
		selector, err := labels.Parse(s.RawSelector)
		if err != nil {
			return nil, err
		}
		requirements, _ := selector.Requirements()
		return requirements, nil
	}
	var kept labels.Requirements
	var errs []error
	for _, r := range s.Requirements {
		var operator selection.Operator
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			operator = selection.In
		case metav1.LabelSelectorOpNotIn:
			operator = selection.NotIn
		case metav1.LabelSelectorOpExists:
			operator = selection.Exists
		case metav1.LabelSelectorOpDoesNotExist:
			operator = selection.DoesNotExist
		default:
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", r.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		kept = append(kept, *requirement)
	}
	return kept, errors.Join(errs...)
}

// fieldRequirements returns the requirements that can be parsed. It returns an error if some of the
// requirements cannot be parsed. Field selectors support only requirements with a single value.
func fieldRequirements(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if s == nil {
		return nil, nil
	}
	if s.RawSelector != "" {
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	var kept fields.Requirements
	var errs []error
	for _, r := range s.Requirements {
		var operator selection.Operator
		switch r.Operator {
		case metav1.FieldSelectorOpIn:
			operator = selection.Equals
		case metav1.FieldSelectorOpNotIn:
			operator = selection.NotEquals
		}
		if operator == "" || len(r.Values) != 1 {
			errs = append(errs, fmt.Errorf("field selectors know no %s of %d values", r.Operator, len(r.Values)))
			continue
		}
		kept = append(kept, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
	}
	return kept, errors.Join(errs...)
}
