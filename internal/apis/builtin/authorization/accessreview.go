package authorization

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// accessReviews serves one of the three kinds of reviews that ask about a single action. The kinds differ in
// the user and in the permitted fields, which are both determined by open.
type accessReviews struct {
	env  *builtin.Env
	kind *codec.Kind
	open func(codec.Object) question
}

// question contains the fields that the three kinds have in common.
type question struct {
	// spec describes the action. It contains no user if self is set.
	spec authorizationv1.SubjectAccessReviewSpec
	// self specifies that the review is about the user who sends the request.
	self   bool
	errs   field.ErrorList
	status *authorizationv1.SubjectAccessReviewStatus
}

var _ rest.Creater = accessReviews{}

// Create implements rest.Creater.
func (r accessReviews) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, _ metav1.CreateOptions) (*codec.Record, error) {
	q := r.open(obj)
	if len(q.errs) > 0 {
		// As in kube-apiserver, the error has no kind.
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", q.errs)
	}
	user, err := r.user(ctx, &q)
	if err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, obj, nil); err != nil {
			return nil, err
		}
	}
	attributes, problems := attributesOf(user, &q.spec)
	decision, reason, err := r.env.Auth.Authorizer.Authorize(ctx, attributes)
	*q.status = authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny,
		Reason: reason, EvaluationError: evaluationError(err, problems),
	}
	return codec.RecordOf(r.kind, obj, nil, 0), nil
}

func (r accessReviews) user(ctx context.Context, q *question) (*request.User, error) {
	if q.self {
		if user := request.UserFrom(ctx); user != nil {
			return user, nil
		}
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	user := &request.User{Name: q.spec.User, UID: q.spec.UID, Groups: q.spec.Groups}
	for key, values := range q.spec.Extra {
		if user.Extra == nil {
			user.Extra = make(map[string][]string, len(q.spec.Extra))
		}
		user.Extra[key] = values
	}
	return user, nil
}

func openSubject(obj codec.Object) question {
	review := obj.(*authorizationv1.SubjectAccessReview)
	errs := validateSpec(&review.Spec)
	errs = append(errs, validateUser(&review.Spec)...)
	errs = append(errs, validateSelectors(review.Spec.ResourceAttributes)...)
	errs = append(errs, validateMetadata(review.ObjectMeta, "must be empty")...)
	return question{spec: review.Spec, errs: errs, status: &review.Status}
}

func openSelf(obj codec.Object) question {
	review := obj.(*authorizationv1.SelfSubjectAccessReview)
	spec := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: review.Spec.ResourceAttributes, NonResourceAttributes: review.Spec.NonResourceAttributes,
	}
	errs := validateSpec(&spec)
	errs = append(errs, validateSelectors(spec.ResourceAttributes)...)
	errs = append(errs, validateMetadata(review.ObjectMeta, "must be empty")...)
	return question{spec: spec, self: true, errs: errs, status: &review.Status}
}

func openLocal(obj codec.Object) question {
	review := obj.(*authorizationv1.LocalSubjectAccessReview)
	errs := validateSpec(&review.Spec)
	errs = append(errs, validateUser(&review.Spec)...)
	errs = append(errs, validateSelectors(review.Spec.ResourceAttributes)...)
	metadata := review.ObjectMeta
	metadata.Namespace = ""
	if len(validateMetadata(metadata, "")) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), review.ObjectMeta, "must be empty except for namespace"))
	}
	if asked := review.Spec.ResourceAttributes; asked != nil && asked.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(specPath().Child("resourceAttributes", "namespace"), asked.Namespace, "must match metadata.namespace"))
	}
	if asked := review.Spec.NonResourceAttributes; asked != nil {
		errs = append(errs, field.Invalid(specPath().Child("nonResourceAttributes"), shown(asked), "disallowed on this kind of request"))
	}
	return question{spec: review.Spec, errs: errs, status: &review.Status}
}
