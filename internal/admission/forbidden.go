package admission

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Forbidden returns the answer to a request that is not let pass: 403 with a reason. As
// in kube-apiserver it names the object as far as it has a name yet.
func (a *Attributes) Forbidden(reason error) *apierrors.StatusError {
	name := a.Name
	if name == "" {
		name = "Unknown"
		if obj, ok := a.Object.(metav1.Object); ok {
			switch {
			case obj.GetName() != "":
				name = obj.GetName()
			case obj.GetGenerateName() != "":
				name = obj.GetGenerateName()
			}
		}
	}
	return apierrors.NewForbidden(a.Resource.GroupResource(), name, reason)
}
