package conversion

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

// TargetOf returns the address of a conversion webhook. It returns an *Error if config is nil.
func TargetOf(config *apiextensionsv1.WebhookClientConfig) (webhook.Target, error) {
	if config == nil {
		return webhook.Target{}, &Error{Message: "webhook configuration must have either service or URL"}
	}
	return webhook.TargetOf(config.URL, (*webhook.ServiceReference)(config.Service), config.CABundle), nil
}

// reviewKind returns the kind of a ConversionReview.
func (c *Converter) reviewKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: apiextensionsv1.GroupName, Version: c.version, Kind: "ConversionReview"}
}

// newReview returns an encoded ConversionReview, with the same bytes as kube-apiserver's, and its UID.
func (c *Converter) newReview(objects []*unstructured.Unstructured, to schema.GroupVersion) (review []byte, uid string, err error) {
	uid = uuid.NewString()
	review = fmt.Appendf(nil, `{"kind":"ConversionReview","apiVersion":%q,"request":{"uid":%q,"desiredAPIVersion":%q,"objects":[`,
		c.reviewKind().GroupVersion(), uid, to)
	for i, obj := range objects {
		if i > 0 {
			review = append(review, ',')
		}
		if review, err = jsonplan.Append(review, obj); err != nil {
			return nil, "", fmt.Errorf("encode %s: %w", obj.GetName(), err)
		}
	}
	return append(review, `]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}`+"\n"...), uid, nil
}

// reviewResponse is a decoded ConversionReview, in either version.
type reviewResponse struct {
	Response *struct {
		UID              string            `json:"uid"`
		ConvertedObjects []json.RawMessage `json:"convertedObjects"`
		Result           metav1.Status     `json:"result"`
	} `json:"response"`
}

// readReview returns the converted objects in the response to the review with the given UID.
func (c *Converter) readReview(body []byte, uid string) ([]json.RawMessage, *fault) {
	document, gvk, err := webhook.Review(body, c.reviewKind().GroupKind())
	if err != nil {
		return nil, faultf(callFailure, "failed: %v", err)
	}
	// Responses in v1beta1 may omit the type and the UID.
	strict := c.version != "v1beta1"
	if want := c.reviewKind(); strict && gvk != want {
		return nil, faultf(malformedResponse, "failed: expected webhook response of %v, got %v", want, gvk)
	}
	var read reviewResponse
	if err := json.Unmarshal(document, &read); err != nil {
		return nil, faultf(callFailure, "failed: %v", err)
	}
	switch response := read.Response; {
	case response == nil:
		return nil, faultf(malformedResponse, "failed: no response provided")
	case strict && response.UID != uid:
		return nil, faultf(malformedResponse, "failed: expected response.uid=%q, got %q", uid, response.UID)
	case response.Result.Status == metav1.StatusSuccess:
		return response.ConvertedObjects, nil
	case response.Result.Message != "":
		return nil, faultf(malformedResponse, "failed: %s", response.Result.Message)
	default:
		return nil, faultf(malformedResponse, "failed: response.result.status was '%s', not 'Success'", response.Result.Status)
	}
}
