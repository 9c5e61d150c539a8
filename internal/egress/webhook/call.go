package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Limits contains the limits for one call. Both fields must be positive.
type Limits struct {
	// Timeout is the timeout for the whole call. The webhook receives it as the query parameter timeout.
	Timeout time.Duration
	// MaxResponse is the maximum size of the response body, in bytes.
	MaxResponse int64
}

// userAgent is the User-Agent that kube-apiserver sends to webhooks.
const userAgent = "kube-apiserver-admission"

// Call posts a review and returns the response body, which the caller owns. It blocks until the webhook has
// responded, limits.Timeout has passed or ctx has ended. It retries only if the webhook has closed a reused
// connection. A redirect and any status other than 200 to 206 result in a *StatusError. The errors are reported
// to users, so their messages are kube-apiserver's.
func (c *Client) Call(ctx context.Context, review []byte, limits Limits) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Timeout)
	defer cancel()
	where := *c.url
	where.RawQuery = "timeout=" + limits.Timeout.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), bytes.NewReader(review))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	request.Header = http.Header{
		"Accept": {"application/json, */*"}, "Content-Type": {"application/json"}, "User-Agent": {userAgent},
		// The nil value is not sent, but allows net/http to retry on a new connection if a reused one was
		// closed. A retry is safe, because reviews have no side effects.
		"Idempotency-Key": nil,
	}
	if err := c.credentials.Authorize(request.Header); err != nil {
		return nil, err
	}
	tracing.Inject(ctx, request.Header)
	client := &http.Client{Transport: c.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, shortenResolveError(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readResponse(response, limits.MaxResponse)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode > http.StatusPartialContent {
		return nil, statusError(response, body)
	}
	if len(body) == 0 {
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	return body, nil
}

// shortenResolveError replaces a ResolveError with an error that has kube-apiserver's shorter message. It
// returns other errors unchanged.
func shortenResolveError(err error) error {
	var call *url.Error
	var resolve *egress.ResolveError
	if errors.As(err, &call) && errors.As(err, &resolve) {
		return &url.Error{Op: call.Op, URL: call.URL, Err: shortResolveError{resolve}}
	}
	return err
}

// shortResolveError is a ResolveError without the service in its message.
type shortResolveError struct{ *egress.ResolveError }

func (e shortResolveError) Error() string { return e.Err.Error() }

// Unwrap returns the ResolveError.
func (e shortResolveError) Unwrap() error { return e.ResolveError }

// IsUnreachable reports whether an error of Call means that no connection was established, because the host
// name or service could not be resolved or because dialing failed.
func IsUnreachable(err error) bool {
	var dial *net.OpError
	var name *net.DNSError
	var service *egress.ResolveError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &name) || errors.As(err, &service)
}

// readResponse reads the body of a response. It returns an error if the body is larger than limit bytes.
func readResponse(response *http.Response, limit int64) ([]byte, error) {
	if response.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var body bytes.Buffer
	if response.ContentLength > 0 {
		// The Content-Length may be wrong, so limit the initial allocation.
		body.Grow(int(min(response.ContentLength, 1<<20)) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(io.LimitReader(response.Body, limit+1)); err != nil {
		return nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	}
	if int64(body.Len()) > limit {
		return nil, tooLarge(limit)
	}
	return body.Bytes(), nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("the response exceeds the limit of %d bytes", limit)
}

// maxMessage is the maximum size of text from a webhook in an error message, in bytes.
const maxMessage = 4 << 10

// Truncate truncates text from a webhook to 4 KiB, for use in an error message.
func Truncate(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + " ..."
}

// StatusError reports a response with an unexpected status code. Code is the HTTP status code.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return e.Message }

// statusError returns the error for an unexpected status code. Its message is the message of the Status in the
// body or, if the body is not a failure Status, a generic message for the code.
func statusError(response *http.Response, body []byte) error {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Status == metav1.StatusFailure && (status.Kind == "" || status.Kind == "Status") {
		return &StatusError{response.StatusCode, Truncate(status.Message)}
	}
	message := "unknown"
	if isText(response.Header.Get("Content-Type")) {
		message = Truncate(strings.TrimSpace(string(body)))
	}
	retryAfter, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	generic := apierrors.NewGenericServerResponse(response.StatusCode, http.MethodPost, schema.GroupResource{}, "", message, retryAfter, true)
	return &StatusError{response.StatusCode, generic.Error()}
}

func isText(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && strings.HasPrefix(media, "text/")
}
