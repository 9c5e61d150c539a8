package admission

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Forbidden returns a 403 API error with the given reason. As in kube-apiserver, the message contains the name
// of the object, its generateName, or Unknown.
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
