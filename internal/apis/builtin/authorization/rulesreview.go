package authorization

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// rulesReviews serves SelfSubjectRulesReviews.
type rulesReviews struct {
	env  *builtin.Env
	kind *codec.Kind
}

var _ rest.Creater = rulesReviews{}

// Create implements rest.Creater. The response contains only a status.
func (r rulesReviews) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, _ metav1.CreateOptions) (*codec.Record, error) {
	review := obj.(*authorizationv1.SelfSubjectRulesReview)
	user := request.UserFrom(ctx)
	if user == nil {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if review.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	if validate != nil {
		if err := validate(ctx, review, nil); err != nil {
			return nil, err
		}
	}
	answer := &authorizationv1.SelfSubjectRulesReview{Status: r.env.Auth.UserRules(ctx, user, review.Spec.Namespace)}
	if answer.Status.ResourceRules == nil {
		answer.Status.ResourceRules = []authorizationv1.ResourceRule{}
	}
	if answer.Status.NonResourceRules == nil {
		answer.Status.NonResourceRules = []authorizationv1.NonResourceRule{}
	}
	return codec.RecordOf(r.kind, answer, nil, 0), nil
}
