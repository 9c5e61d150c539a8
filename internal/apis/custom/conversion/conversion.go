// Package conversion converts custom resources between versions with the conversion webhook of their
// definition. It sends a ConversionReview and validates the response. It does not prune the result.
package conversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

const (
	// timeout is the timeout of a webhook call, as in kube-apiserver.
	timeout = 30 * time.Second
	// A response is limited to maxResponseBytes plus maxResponseFactor times the size of the request.
	// Objects that are larger than maxResponseBytes cannot be stored.
	maxResponseBytes, maxResponseFactor = 3 << 20, 16
)

// Config configures a Converter.
type Config struct {
	// Definition is the name of the definition, for metrics.
	Definition string
	// Webhook is the conversion webhook of the definition.
	Webhook *apiextensionsv1.WebhookConversion
	// Clients are shared by all converters of a server.
	Clients *webhook.Clients
	// Metrics records the calls; nil disables it.
	Metrics *Metrics
}

// Converter converts the objects of a definition. It is safe for concurrent use.
type Converter struct {
	definition string
	// version is the version of ConversionReview, either v1 or v1beta1.
	version string
	client  *webhook.Client
	metrics *Metrics
}

// New returns a Converter, which the caller must close. It does not connect to the webhook. It returns
// an *Error if the webhook supports no known version of ConversionReview or has no address.
func New(config Config) (*Converter, error) {
	known := slices.IndexFunc(config.Webhook.ConversionReviewVersions, func(version string) bool { return version == "v1" || version == "v1beta1" })
	if known < 0 {
		return nil, &Error{Message: "no supported conversion review versions"}
	}
	target, err := TargetOf(config.Webhook.ClientConfig)
	if err != nil {
		return nil, err
	}
	client, err := config.Clients.Client(target)
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	return &Converter{
		definition: config.Definition, version: config.Webhook.ConversionReviewVersions[known], client: client, metrics: config.Metrics,
	}, nil
}

// Close releases the client of the webhook. Conversions in progress are not interrupted.
func (c *Converter) Close() { c.client.Close() }

// Error is the error of a failed conversion. It is an API error with status 500, without a reason, and with the
// same message as in kube-apiserver.
type Error struct {
	Message string
	// Unreachable is set if no connection to the webhook could be established. The error then matches
	// codec.ErrConverterUnreachable.
	Unreachable bool
}

func (e *Error) Error() string { return e.Message }

// Is implements errors.Is.
func (e *Error) Is(target error) bool {
	return e.Unreachable && target == codec.ErrConverterUnreachable
}

// Status implements apierrors.APIStatus.
func (e *Error) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: e.Message}
}

// WatchError returns the error for the last event of a watch. As in kube-apiserver, an *Error has the reason
// InternalError in this event. WatchError returns other errors unchanged.
func WatchError(err error) error {
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	status := failed.Status()
	status.Reason = metav1.StatusReasonInternalError
	return &apierrors.StatusError{ErrStatus: status}
}

// Convert converts objects to a version and returns them in the same order. One call of the webhook converts
// all objects in other versions; Convert blocks during the call. It takes ownership of the objects. It returns
// an *Error, or an error that wraps the cause of ctx if ctx ends.
func (c *Converter) Convert(ctx context.Context, objects []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	var pending []*unstructured.Unstructured
	for _, obj := range objects {
		switch {
		case obj.GroupVersionKind().GroupVersion() == to:
		case isEmpty(obj):
			obj.SetAPIVersion(to.String()) // without calling the webhook
		default:
			pending = append(pending, obj)
		}
	}
	if len(pending) == 0 {
		return objects, nil
	}
	start, from := time.Now(), pending[0].GroupVersionKind()
	converted, fault := c.callWebhook(ctx, pending, to)
	c.metrics.observe(c.definition, from.Version, to.Version, fault, time.Since(start))
	if fault != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("conversion webhook for %v: %w", from, context.Cause(ctx))
		}
		return nil, &Error{
			Message:     fmt.Sprintf("conversion webhook for %v %s", from, webhook.Truncate(fault.text)),
			Unreachable: fault.unreachable,
		}
	}
	if len(pending) == len(objects) {
		return converted, nil
	}
	out := slices.Clone(objects)
	for i, obj := range out {
		if len(pending) > 0 && obj == pending[0] {
			out[i] = converted[0]
			pending, converted = pending[1:], converted[1:]
		}
	}
	return out, nil
}

// isEmpty reports whether an object has only a kind and an apiVersion. As in kube-apiserver, such an object is
// converted without the webhook.
func isEmpty(obj *unstructured.Unstructured) bool {
	_, hasKind := obj.Object["kind"]
	_, hasVersion := obj.Object["apiVersion"]
	return len(obj.Object) == 2 && hasKind && hasVersion
}

// fault describes a failed conversion. class is the class for metrics. text is the message without the leading
// "conversion webhook for <kind>".
type fault struct {
	class, text string
	unreachable bool
}

func faultf(class, format string, args ...any) *fault {
	return &fault{class: class, text: fmt.Sprintf(format, args...)}
}

// callWebhook converts objects with the webhook.
func (c *Converter) callWebhook(ctx context.Context, objects []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, *fault) {
	review, uid, err := c.newReview(objects, to)
	if err != nil {
		return nil, faultf(callFailure, "failed: %v", err)
	}
	body, err := c.client.Call(ctx, review, webhook.Limits{Timeout: timeout, MaxResponse: maxResponseBytes + maxResponseFactor*int64(len(review))})
	if err != nil {
		f := faultf(callFailure, "failed: %v", err)
		f.unreachable = webhook.IsUnreachable(err)
		return nil, f
	}
	responses, failed := c.readReview(body, uid)
	if failed != nil {
		return nil, failed
	}
	if len(responses) != len(objects) {
		return nil, faultf(partialResponse, "returned %d objects, expected %d", len(responses), len(objects))
	}
	converted := make([]*unstructured.Unstructured, len(objects))
	for i, raw := range responses {
		if converted[i], err = checkConverted(objects[i], raw, to); err != nil {
			return nil, invalidObject(i, len(objects), err)
		}
		responses[i] = nil
	}
	return converted, nil
}

// invalidObject returns the fault of an invalid object in the response. As in kube-apiserver, the message has
// no index if there is only one object.
func invalidObject(i, of int, err error) *fault {
	var bad objectError
	errors.As(err, &bad)
	var what string
	switch {
	case of > 1 && bad.where == inMetadata:
		what = fmt.Sprintf("metadata in object at index %d", i)
	case of > 1:
		what = fmt.Sprintf("converted object at index %d", i)
	case bad.where == inMetadata:
		what = "metadata"
	case bad.where == inType:
		what = "object at index 0"
	default:
		what = "object"
	}
	return faultf(invalidConverted, "returned invalid %s: %v", what, err)
}
