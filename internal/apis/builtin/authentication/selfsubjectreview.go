package authentication

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// selfReviews serves SelfSubjectReviews.
type selfReviews struct{ kind *codec.Kind }

var _ rest.Creater = selfReviews{}

// Create implements rest.Creater. It does not use the fields of the requested object.
func (r selfReviews) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, _ metav1.CreateOptions) (*codec.Record, error) {
	if validate != nil {
		if err := validate(ctx, obj, nil); err != nil {
			return nil, err
		}
	}
	user := request.UserFrom(ctx)
	if user == nil {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	review := &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(simulation.Now(ctx).Truncate(time.Second))},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(user)},
	}
	return codec.RecordOf(r.kind, review, nil, 0), nil
}
