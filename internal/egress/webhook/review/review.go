// Package review calls webhooks that process a TokenReview, SubjectAccessReview or ImageReview. It posts a
// review as JSON to a URL, retries temporary failures, and limits the size of the response. Its callers create
// the review and interpret the response.
package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Limits of calls. They equal kube-apiserver's limits, except that kube-apiserver does not limit the size of
// responses.
const (
	maxResponse    = 1 << 20 // bytes
	attempts       = 5
	defaultBackoff = 500 * time.Millisecond
)

// Webhook calls one webhook for reviews. It must not be modified after the first call, and is then
// safe for concurrent use. Client, URL and Purpose are required.
type Webhook struct {
	// Client sends the requests. Its field CheckRedirect is ignored.
	Client *http.Client
	URL    string
	// Purpose is the subject of the reviews in error messages, for example "tokens".
	Purpose string
	// Timeout is the timeout for each attempt; 0 means that only the deadline of the context applies.
	Timeout time.Duration
	// Backoff is the delay before the second attempt; 0 selects half a second.
	Backoff time.Duration
	// NoRetry limits a call to one attempt.
	NoRetry bool
	// OnAttempt is called after each attempt with its error and duration. OnAttempt may be nil.
	OnAttempt func(err error, took time.Duration)
}

// errTemporary is wrapped by errors that cause a retry.
var errTemporary = errors.New("temporary")

// Post sends a review as JSON and decodes the response body into response. While the webhook is
// unreachable or responds with a 429 or 5xx status, it retries with increasing delays until the
// attempts are exhausted or ctx ends. It returns the last error, which wraps a *StatusError if the
// status is not 200 or 201.
func (w *Webhook) Post(ctx context.Context, review, response any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("call the webhook for %s: %w", w.Purpose, err)
	}
	var last error
	err = wait.ExponentialBackoffWithContext(ctx, w.backoff(), func(ctx context.Context) (bool, error) {
		began := time.Now()
		last = w.attempt(ctx, body, response)
		if w.OnAttempt != nil {
			w.OnAttempt(last, time.Since(began))
		}
		if errors.Is(last, errTemporary) {
			return false, nil
		}
		return true, last
	})
	if last != nil {
		return last
	}
	return err
}

func (w *Webhook) backoff() wait.Backoff {
	b := wait.Backoff{Duration: w.Backoff, Factor: 1.5, Jitter: 0.2, Steps: attempts}
	if b.Duration == 0 {
		b.Duration = defaultBackoff
	}
	if w.NoRetry {
		b.Steps = 1
	}
	return b
}

func (w *Webhook) attempt(ctx context.Context, review []byte, response any) error {
	if w.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Timeout)
		defer cancel()
	}
	body, err := w.post(ctx, review)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, response); err != nil {
		return fmt.Errorf("read the response of the webhook for %s: %w", w.Purpose, err)
	}
	return nil
}

func (w *Webhook) post(ctx context.Context, review []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	client := *w.Client
	// Tokens and the credentials for the webhook must not be sent to another server after a redirect.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: call the webhook for %s: %w", errTemporary, w.Purpose, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("%w: read the response of the webhook for %s: %w", errTemporary, w.Purpose, err)
	}
	rejected := &StatusError{Purpose: w.Purpose, Code: response.StatusCode, Status: response.Status}
	switch code := response.StatusCode; {
	case code >= http.StatusInternalServerError || code == http.StatusTooManyRequests:
		return nil, fmt.Errorf("%w: %w", errTemporary, rejected)
	case code != http.StatusOK && code != http.StatusCreated:
		return nil, rejected
	}
	return body, nil
}

// StatusError reports a response with a status code other than 200 or 201.
type StatusError struct {
	Purpose string // Webhook.Purpose
	Code    int    // HTTP status code
	Status  string // HTTP status line, such as "403 Forbidden"
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the webhook for %s responded with %s", e.Purpose, e.Status)
}
