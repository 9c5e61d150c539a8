package authentication

import (
	"context"
	"errors"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// tokenReviews serves TokenReviews.
type tokenReviews struct {
	env  *builtin.Env
	kind *codec.Kind
}

var _ rest.Creater = tokenReviews{}

// Create implements rest.Creater.
func (r tokenReviews) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, _ metav1.CreateOptions) (*codec.Record, error) {
	review := obj.(*authenticationv1.TokenReview)
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	if validate != nil {
		if err := validate(ctx, review, nil); err != nil {
			return nil, err
		}
	}
	found, err := r.env.Auth.AuthenticateToken(ctx, review.Spec.Token, review.Spec.Audiences)
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: found != nil}
	if err != nil {
		review.Status.Error = err.Error()
	}
	if found != nil {
		if len(review.Spec.Audiences) > 0 && !intersect(review.Spec.Audiences, found.Audiences) {
			return nil, apierrors.NewInternalError(errors.New("authenticator returned unexpected audience"))
		}
		review.Status.User, review.Status.Audiences = userInfo(found.User), found.Audiences
	}
	return codec.RecordOf(r.kind, review, nil, 0), nil
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
