package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Limits bound a call.
type Limits struct {
	// Timeout bounds the whole call; the webhook is told of it.
	Timeout time.Duration
	// Answer is how many bytes are taken of an answer.
	Answer int64
}

// userAgent is how kube-apiserver introduces itself to webhooks.
const userAgent = "kube-apiserver-admission"

// Call posts a review and returns the answer's body. It is called once: nothing
// is tried again but a connection that the webhook had closed before. A redirect
// is an answer like any other that is not a success. Errors are for people, and
// worded as kube-apiserver's are where they quote the webhook.
func (c *Client) Call(ctx context.Context, review []byte, limits Limits) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Timeout)
	defer cancel()
	where := *c.url
	where.RawQuery = "timeout=" + limits.Timeout.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), bytes.NewReader(review))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	request.Header = http.Header{
		"Accept": {"application/json, */*"}, "Content-Type": {"application/json"}, "User-Agent": {userAgent},
		// Never sent: it lets a review be sent once more over a new connection
		// where a kept one turns out to be closed. Reviews have no effects.
		"Idempotency-Key": nil,
	}
	client := &http.Client{Transport: c.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readAnswer(response, limits.Answer)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode > http.StatusPartialContent {
		return nil, refusal(response, body)
	}
	if len(body) == 0 {
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	return body, nil
}

// readAnswer reads no more than it may.
func readAnswer(response *http.Response, limit int64) ([]byte, error) {
	if response.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var body bytes.Buffer
	if response.ContentLength > 0 {
		// What is said to come is believed only so far.
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
	return fmt.Errorf("the response is larger than %d bytes, which is the limit", limit)
}

// maxQuoted is how much of a webhook's own words is passed on.
const maxQuoted = 4 << 10

// Quote shortens text of a webhook to what may be passed on.
func Quote(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + " ..."
}

// refusal words an answer that is not a success: by the Status in it, if there
// is one, and else by its code.
func refusal(response *http.Response, body []byte) error {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Status == metav1.StatusFailure && (status.Kind == "" || status.Kind == "Status") {
		return errors.New(Quote(status.Message))
	}
	said := "unknown"
	if isText(response.Header.Get("Content-Type")) {
		said = Quote(strings.TrimSpace(string(body)))
	}
	retryAfter, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return errors.New(apierrors.NewGenericServerResponse(response.StatusCode, http.MethodPost, schema.GroupResource{}, "", said, retryAfter, true).Error())
}

func isText(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && strings.HasPrefix(media, "text/")
}
