package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// isUnsafe reports whether a deletion is to ignore errors that occur when the object is read.
func isUnsafe(options *metav1.DeleteOptions) bool {
	unsafe := options.IgnoreStoreReadErrorWithClusterBreakingPotential
	return unsafe != nil && *unsafe
}

// deleteCorrupt handles the deletion of an unreadable object, which admission and the client cannot
// see.
func (c *call) deleteCorrupt(t target, options *metav1.DeleteOptions) error {
	_ = request.Annotate(c.r.Context(), "apiserver.k8s.io/unsafe-delete-ignore-read-error", "") // an error means that the audit event is full
	s, ok := c.resource.Storage.(rest.CorruptDeleter)
	if !ok {
		return apierrors.NewInternalError(errors.New("no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential"))
	}
	if err := c.authorizeUnsafe(c.r.Context()); err != nil {
		return err
	}
	if err := s.DeleteCorrupt(c.r.Context(), c.name(), *options); err != nil {
		return err
	}
	return respondObject(c.w, c.r, t, http.StatusOK, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{Name: c.info.Name, Kind: c.resource.Version.GVK.Kind},
	})
}

// authorizeUnsafe returns an error if the user is not allowed to delete unreadable objects, which requires
// another verb in addition to "delete".
func (o *operation) authorizeUnsafe(ctx context.Context) error {
	if o.authorizer == nil {
		return apierrors.NewInternalError(errors.New("no authorizer provided, unable to authorize unsafe delete"))
	}
	forbidden := func(why error) error {
		return apierrors.NewForbidden(o.resource.GVR().GroupResource(), o.info.Name, why)
	}
	if o.info.Subresource != "" {
		return forbidden(errors.New("ignoreStoreReadErrorWithClusterBreakingPotential delete option is not allowed on a subresource or non-resource request"))
	}
	a := authorizer.AttributesOf(request.UserFrom(ctx), o.info)
	a.Verb = "unsafe-delete-ignore-read-errors"
	decision, reason, err := o.authorizer.Authorize(ctx, &a)
	switch {
	case err != nil:
		return forbidden(fmt.Errorf("error while checking permission for %q, %w", a.Verb, err))
	case decision == authorizer.DecisionAllow:
		return nil
	}
	return forbidden(fmt.Errorf("not permitted to do %q, reason: %s", a.Verb, reason))
}
