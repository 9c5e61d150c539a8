package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry"
)

// readBody reads the body of the request. It returns an API error if the body is larger than the
// limit, or if the memory for request bodies is exhausted.
func (c *call) readBody() ([]byte, error) {
	limit := c.api.config.MaxBodyBytes
	if c.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	reader := io.LimitReader(c.r.Body, limit+1)
	room := func(bytes int) error { return c.reserved.ReserveBody(c.r.Context(), bytes) }
	body, err := readAll(reader, c.r.ContentLength, room)
	var maxBytes *http.MaxBytesError
	switch {
	case errors.Is(err, memory.ErrExhausted):
		return nil, errExhausted()
	case errors.As(err, &maxBytes), int64(len(body)) > limit:
		return nil, tooLarge(limit)
	case err != nil && c.r.Context().Err() == context.DeadlineExceeded:
		return nil, fmt.Errorf("read the body of the request: %w", context.DeadlineExceeded) // the deadline interrupted the read
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body of the request could not be read: %v", err))
	}
	return body, nil
}

const (
	// firstBodyBuffer is the maximum initial buffer size of a body with a declared length; nearly all
	// bodies fit. smallBodyBuffer is the initial buffer size of a body without a declared length. Both are
	// in bytes.
	firstBodyBuffer = 32 << 10
	smallBodyBuffer = 512
	// exhaustedRetryAfter is the Retry-After, in seconds, of a request that is rejected because no
	// memory is available.
	exhaustedRetryAfter = 1
)

// readAll reads all of r. length is the declared length in bytes, which is unknown if it is not positive.
// The buffer grows with the received data, because a client can declare a large length at no cost. room is
// called with the new buffer size before each growth; if it returns an error, the read ends.
func readAll(r io.Reader, length int64, room func(bytes int) error) ([]byte, error) {
	size := int64(smallBodyBuffer)
	if length > 0 {
		size = min(length, firstBodyBuffer)
	}
	body := make([]byte, 0, size)
	for length <= 0 || int64(len(body)) < length {
		if len(body) == cap(body) {
			size := 2 * int64(cap(body))
			if length > 0 {
				size = min(length, size)
			}
			if err := room(int(size)); err != nil {
				return body, err
			}
			grown := make([]byte, len(body), size)
			copy(grown, body)
			body = grown
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case length > 0 && int64(len(body)) == length:
		case err == io.EOF && length > 0:
			return body, io.ErrUnexpectedEOF
		case err == io.EOF:
			return body, nil
		case err != nil:
			return body, err
		}
	}
	return body, nil
}

// errExhausted returns the API error for a request for which no memory is available.
func errExhausted() error {
	return apierrors.NewTooManyRequests("the server has no memory for a request of this size at present, please try again later", exhaustedRetryAfter)
}

// charged returns a copy of a version that reserves memory for the decoded object before it decodes the object.
// If no memory is available, decoding fails with an API error, for which isExhausted returns true.
func (c *call) charged(v *codec.Version) *codec.Version {
	return v.WithCharge(func(bytes int) error {
		err := c.reserved.ReserveObject(c.r.Context(), bytes)
		switch {
		case errors.Is(err, memory.ErrExhausted):
			return errExhausted()
		case err != nil: // the deadline has passed, or the client has disconnected
			return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
		}
		return nil
	})
}

// isExhausted reports whether an object cannot be decoded because of its memory.
func isExhausted(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err)
}

func tooLarge(limit int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
}

// decodeBody decodes the object in the request body and converts it to the hub version. fieldValidation
// determines whether unknown and duplicate fields are ignored, cause warnings, or are rejected (KEP-2885).
func (c *call) decodeBody(v *codec.Version, fieldValidation string) (codec.Object, error) {
	body, media, err := c.objectBody(v)
	if err != nil {
		return nil, err
	}
	return c.decodeObject(v, fieldValidation, body, media)
}

// objectBody reads a request body that contains an object, and returns its media type.
func (c *call) objectBody(v *codec.Version) ([]byte, codec.Media, error) {
	media, err := bodyMedia(c.r)
	if err != nil {
		return nil, media, err
	}
	if v.Untyped && media == codec.Protobuf {
		return nil, media, unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: application/json, application/yaml")
	}
	body, err := c.readBody()
	return body, media, err
}

func (c *call) decodeObject(v *codec.Version, fieldValidation string, body []byte, media codec.Media) (codec.Object, error) {
	obj, err := c.charged(v).Decode(body, media, fieldValidation != metav1.FieldValidationIgnore)
	telemetry.Step(c.r.Context(), "decoded body")
	if err := c.checkStrict(v, fieldValidation, err); err != nil {
		return nil, err
	}
	c.auditObject(obj, media, body)
	return c.toHub(v, obj)
}

// toHub converts a client's object from version v to the hub version, with defaults. Errors are API errors.
func (o *operation) toHub(v *codec.Version, obj codec.Object) (codec.Object, error) {
	hub, err := v.ConvertToHub(obj)
	if err != nil {
		return nil, asBadRequest(err)
	}
	if kind := o.resource.Kind; kind != nil {
		hub.GetObjectKind().SetGroupVersionKind(kind.Hub.GVK)
	}
	return hub, nil
}

// versioned converts an object from the hub version to the requested version. The result may alias
// its argument and must not be modified.
func (o *operation) versioned(hub codec.Object) (codec.Object, error) {
	v := o.resource.Version
	if v.FromHub == nil {
		return hub, nil
	}
	obj, err := v.ConvertFromHub(hub.DeepCopyObject().(codec.Object))
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(v.GVK)
	return obj, nil
}

// checkStrict returns strict decoding errors as an API error, or converts them to warnings, as
// fieldValidation specifies. It returns other errors as bad requests.
func (c *call) checkStrict(v *codec.Version, fieldValidation string, err error) error {
	if err == nil {
		return nil
	}
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return asBadRequest(err)
	}
	if fieldValidation == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", v.GVK.Kind, v.GVK.Version, v.GVK.Kind, strict))
	}
	c.warnStrict(strict.Errors())
	return nil
}

// warnStrict adds strict decoding errors as warnings.
func (c *call) warnStrict(found []error) {
	for _, problem := range found {
		c.warnStrictErrors(problem.Error())
	}
}

// warnStrictErrors adds a warning for each line of faults, because the YAML decoder returns all strict
// decoding errors as one error.
func (c *call) warnStrictErrors(faults string) {
	for line := range strings.SplitSeq(strings.TrimPrefix(faults, "yaml: unmarshal errors:\n"), "\n") {
		request.AddWarning(c.r.Context(), strings.TrimSpace(line))
	}
}
