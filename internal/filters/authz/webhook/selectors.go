package webhook

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"

	"mainstay.dev/mainstay/internal/authorizer"
)

// operatorOf converts an operator to its form in SubjectAccessReviews. It returns "" if reviews
// cannot represent the operator. Label and field selectors have the same operators.
func operatorOf(o selection.Operator) metav1.LabelSelectorOperator {
	switch o {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return metav1.LabelSelectorOpIn
	case selection.NotEquals, selection.NotIn:
		return metav1.LabelSelectorOpNotIn
	case selection.Exists:
		return metav1.LabelSelectorOpExists
	case selection.DoesNotExist:
		return metav1.LabelSelectorOpDoesNotExist
	}
	return ""
}

// fieldSelectorOf returns nil if there are no requirements. It omits requirements that reviews
// cannot represent, so the webhook authorizes a wider request.
func fieldSelectorOf(a *authorizer.Attributes) *authorizationv1.FieldSelectorAttributes {
	var list []metav1.FieldSelectorRequirement
	for _, r := range a.FieldSelectorRequirements {
		if o := operatorOf(r.Operator); o != "" {
			list = append(list, metav1.FieldSelectorRequirement{Key: r.Field, Operator: metav1.FieldSelectorOperator(o), Values: []string{r.Value}})
		}
	}
	if list == nil {
		return nil
	}
	return &authorizationv1.FieldSelectorAttributes{Requirements: list}
}

// labelSelectorOf is like fieldSelectorOf, for label selectors.
func labelSelectorOf(a *authorizer.Attributes) *authorizationv1.LabelSelectorAttributes {
	var list []metav1.LabelSelectorRequirement
	for i := range a.LabelSelectorRequirements {
		r := &a.LabelSelectorRequirements[i]
		if o := operatorOf(r.Operator()); o != "" {
			list = append(list, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: o, Values: r.Values().List()})
		}
	}
	if list == nil {
		return nil
	}
	return &authorizationv1.LabelSelectorAttributes{Requirements: list}
}
