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

// reviewCall is the AdmissionReview of a request for one webhook.
type reviewCall struct {
	indexedWebhook
	// resource is the resource in the review. object is the object of the request in the version of resource,
	// or nil if the request has no object. object is shared and must not be modified.
	resource *rest.Resource
	object   runtime.Object
	// review is the request body, gvk its type, and uid the expected UID of the response.
	review []byte
	gvk    schema.GroupVersionKind
	uid    types.UID
	// buildErr is the reason why the webhook cannot be called.
	buildErr *callError
}

// reviewBuilder creates the reviews of one request for several webhooks. It encodes each version of an object
// only once.
type reviewBuilder struct {
	a       *admission.Attributes
	encoded []encoded
	options []byte
}

type encoded struct {
	object runtime.Object
	json   []byte
}

// newCall returns the review for a webhook. The review contains the current object.
func (q *reviewBuilder) newCall(ctx context.Context, h indexedWebhook, matched *rest.Resource) (*reviewCall, error) {
	out := &reviewCall{indexedWebhook: h, resource: matched}
	var known bool
	if out.gvk, known = reviewKind(h.spec.AdmissionReviewVersions); !known {
		out.buildErr = &callError{h.spec.Name, errors.New("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"), 400}
		return out, nil
	}
	object, err := q.a.ObjectIn(ctx, matched.Version.GVK)
	if err != nil {
		return nil, err
	}
	old, err := q.a.OldIn(ctx, matched.Version.GVK)
	if err != nil {
		return nil, err
	}
	out.object, out.uid = object, types.UID(uuid.NewString())
	out.review, err = q.encodeReview(out, object, old)
	return out, err
}

// v1beta1 is the older version of AdmissionReview. Its fields are the same as in v1.
const v1beta1 = "v1beta1"

// reviewKind returns the first version of AdmissionReview in the list that this server supports. The second
// result is false if there is none.
func reviewKind(versions []string) (schema.GroupVersionKind, bool) {
	for _, v := range versions {
		if v == "v1" || v == v1beta1 {
			return schema.GroupVersionKind{Group: admissionv1.GroupName, Version: v, Kind: "AdmissionReview"}, true
		}
	}
	return schema.GroupVersionKind{}, false
}

// requestFields contains the fields of an AdmissionRequest that precede the objects. The fields are the same in
// v1 and v1beta1.
type requestFields struct {
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

func (q *reviewBuilder) requestFields(out *reviewCall) requestFields {
	a, matched := q.a, out.resource
	return requestFields{
		UID: out.uid, Name: a.Name, Namespace: a.Namespace, Operation: a.Operation, UserInfo: userInfo(a.User),
		Kind: metav1.GroupVersionKind(matched.Version.GVK), Resource: metav1.GroupVersionResource(matched.GVR()), SubResource: matched.Subresource,
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

// encodeReview encodes an AdmissionReview. It copies the encoded objects only once.
func (q *reviewBuilder) encodeReview(out *reviewCall, object, old runtime.Object) ([]byte, error) {
	begin, err := json.Marshal(q.requestFields(out))
	if err != nil {
		return nil, err
	}
	objectJSON, err := q.encodeObject(object)
	if err != nil {
		return nil, err
	}
	oldJSON, err := q.encodeObject(old)
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

// encodeObject encodes an object as JSON. It caches the result by the object's pointer, because a modified
// object is always a new object.
func (q *reviewBuilder) encodeObject(object runtime.Object) ([]byte, error) {
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

// encodeOptions encodes the options of an operation as JSON, with a kind of the group meta.k8s.io.
func encodeOptions(options runtime.Object) ([]byte, error) {
	if options == nil {
		return []byte("null"), nil
	}
	typed := options.DeepCopyObject()
	typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: reflect.TypeOf(options).Elem().Name()})
	return codec.AppendObject(nil, typed, codec.JSON)
}
