package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// reviewCall is an AdmissionReview about a request for one webhook.
type reviewCall struct {
	placed
	// shown is the resource of the review, object its object in this version; nil without one. It
	// is shared.
	shown  *rest.Resource
	object runtime.Object
	// review is the request body, gvk its type, and uid the expected UID of the response.
	review []byte
	gvk    schema.GroupVersionKind
	uid    types.UID
	// broken is the reason why the webhook cannot be called.
	broken *callError
}

// reviewBuilder makes the reviews of one request for several webhooks. It encodes an object once per
// version.
type reviewBuilder struct {
	a       *admission.Attributes
	encoded []encoded
	options []byte
}

type encoded struct {
	object runtime.Object
	json   []byte
}

// call returns the review for a webhook, with the object as it is now.
func (q *reviewBuilder) call(ctx context.Context, h placed, shown *rest.Resource) (*reviewCall, error) {
	out := &reviewCall{placed: h, shown: shown}
	var known bool
	if out.gvk, known = reviewKind(h.spec.AdmissionReviewVersions); !known {
		out.broken = &callError{h.spec.Name, errors.New("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"), 400}
		return out, nil
	}
	object, err := q.a.ObjectIn(ctx, shown.Version.GVK)
	if err != nil {
		return nil, err
	}
	old, err := q.a.OldIn(ctx, shown.Version.GVK)
	if err != nil {
		return nil, err
	}
	out.object, out.uid = object, types.UID(uuid.NewString())
	out.review, err = q.review(out, object, old)
	return out, err
}

// beta is the older version of reviews, which has the same fields.
const beta = "v1beta1"

// reviewKind is the type of the reviews that a webhook is sent: the first of its
// versions that there is.
func reviewKind(versions []string) (schema.GroupVersionKind, bool) {
	for _, v := range versions {
		if v == "v1" || v == beta {
			return schema.GroupVersionKind{Group: admissionv1.GroupName, Version: v, Kind: "AdmissionReview"}, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// head are the fields of an AdmissionRequest, in both versions, before its objects.
type head struct {
	UID                types.UID                   `json:"uid"`
	Kind               metav1.GroupVersionKind     `json:"kind"`
	Resource           metav1.GroupVersionResource `json:"resource"`
	SubResource        string                      `json:"subResource,omitempty"`
	RequestKind        metav1.GroupVersionKind     `json:"requestKind"`
	RequestResource    metav1.GroupVersionResource `json:"requestResource"`
	RequestSubResource string                      `json:"requestSubResource,omitempty"`
	Name               string                      `json:"name,omitempty"`
	Namespace          string                      `json:"namespace,omitempty"`
	Operation          admission.Operation         `json:"operation"`
	UserInfo           authenticationv1.UserInfo   `json:"userInfo"`
}

func (q *reviewBuilder) head(out *reviewCall) head {
	a, shown := q.a, out.shown
	return head{
		UID: out.uid, Name: a.Name, Namespace: a.Namespace, Operation: a.Operation, UserInfo: userInfo(a.User),
		Kind: metav1.GroupVersionKind(shown.Version.GVK), Resource: metav1.GroupVersionResource(shown.GVR()), SubResource: shown.Subresource,
		RequestKind: metav1.GroupVersionKind(a.Kind()), RequestResource: metav1.GroupVersionResource(a.Resource.GVR()), RequestSubResource: a.Resource.Subresource,
	}
}

func userInfo(user *request.User) authenticationv1.UserInfo {
	if user == nil {
		return authenticationv1.UserInfo{}
	}
	info := authenticationv1.UserInfo{Username: user.Name, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

// review encodes an AdmissionReview. The objects are copied into it once.
func (q *reviewBuilder) review(out *reviewCall, object, old runtime.Object) ([]byte, error) {
	begin, err := json.Marshal(q.head(out))
	if err != nil {
		return nil, err
	}
	objectJSON, err := q.encode(object)
	if err != nil {
		return nil, err
	}
	oldJSON, err := q.encode(old)
	if err != nil {
		return nil, err
	}
	if q.options == nil {
		if q.options, err = encodeOptions(q.a.Options); err != nil {
			return nil, err
		}
	}
	body := make([]byte, 0, len(begin)+len(objectJSON)+len(oldJSON)+len(q.options)+200)
	body = fmt.Appendf(body, `{"kind":%q,"apiVersion":%q,"request":`, out.gvk.Kind, out.gvk.GroupVersion())
	body = append(body, begin[:len(begin)-1]...)
	body = append(append(body, `,"object":`...), objectJSON...)
	body = append(append(body, `,"oldObject":`...), oldJSON...)
	body = fmt.Appendf(body, `,"dryRun":%t,"options":`, q.a.DryRun)
	return append(append(body, q.options...), `}}`...), nil
}

// encode returns an object as JSON. Versions of an object that has changed are
// other objects.
func (q *reviewBuilder) encode(object runtime.Object) ([]byte, error) {
	if object == nil {
		return []byte("null"), nil
	}
	for _, e := range q.encoded {
		if e.object == object {
			return e.json, nil
		}
	}
	document, err := codec.AppendObject(nil, object, codec.JSON)
	if err != nil {
		return nil, err
	}
	q.encoded = append(q.encoded, encoded{object, document})
	return document, nil
}

// encodeOptions encodes the options of an operation, which are of the group
// meta.k8s.io.
func encodeOptions(options runtime.Object) ([]byte, error) {
	if options == nil {
		return []byte("null"), nil
	}
	typed := options.DeepCopyObject()
	typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: reflect.TypeOf(options).Elem().Name()})
	return codec.AppendObject(nil, typed, codec.JSON)
}
