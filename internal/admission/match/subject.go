package match

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// Namespaces reads namespaces. It is safe for concurrent use.
type Namespaces interface {
	// Get returns the newest state of a namespace, or a NotFound API error. The object is shared
	// and must not be modified.
	Get(ctx context.Context, name types.NamespacedName) (*corev1.Namespace, error)
}

// Subject is a request in an admission pass, with its namespace, which is read when it is first needed. Like
// Attributes, it is not safe for concurrent use.
type Subject struct {
	*admission.Attributes
	Namespaces Namespaces

	// loaded reports whether namespace and err are set.
	loaded    bool
	namespace *corev1.Namespace
	err       error
}

// Namespace returns the namespace of the request, or nil if the request has none. If the request is for a
// Namespace, it returns the stored Namespace. The result is shared and must not be modified. The error is an
// API error: NotFound or InternalError. The first call reads the namespace and may block until ctx ends.
func (s *Subject) Namespace(ctx context.Context) (*corev1.Namespace, error) {
	if !s.loaded && s.Request.Namespace != "" {
		s.namespace, s.err = s.Namespaces.Get(ctx, types.NamespacedName{Name: s.Request.Namespace})
		s.loaded = true
	}
	if s.err != nil && !apierrors.IsNotFound(s.err) {
		return nil, apierrors.NewInternalError(s.err)
	}
	return s.namespace, s.err
}

// namespaceLabels returns the labels of the request's namespace. For the creation or update of a
// Namespace, these are the labels of the new object.
func (s *Subject) namespaceLabels(ctx context.Context) (map[string]string, error) {
	if isNamespaces(s.Resource) && s.Resource.Subresource == "" && (s.Operation == admission.Create || s.Operation == admission.Update) {
		if o, ok := s.Object.(metav1.Object); ok {
			return o.GetLabels(), nil
		}
	}
	namespace, err := s.Namespace(ctx)
	if err != nil || namespace == nil {
		return nil, err
	}
	return namespace.Labels, nil
}
