// Package review calls webhooks that process reviews: TokenReview, SubjectAccessReview and
// ImageReview. It posts a review as JSON to a URL, retries temporary failures, and limits the size
// of the response. Its callers create the review and interpret the response.
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

// Limits of calls, as in kube-apiserver; it does not limit responses.
const (
	maxResponse  = 1 << 20
	attempts     = 5
	defaultPause = 500 * time.Millisecond
)

// Webhook is a webhook for reviews.
type Webhook struct {
	Client *http.Client
	URL    string
	// What is the subject of the reviews in error messages, for example "tokens".
	What string
	// Timeout of each attempt; 0: that of the context.
	Timeout time.Duration
	// Pause is the delay before the second attempt; 0: half a second. Once disables retries.
	Pause time.Duration
	Once  bool
	// Asked is called after each attempt; may be nil.
	Asked func(err error, took time.Duration)
}

// errTemporary is wrapped by errors that are retried.
var errTemporary = errors.New("temporary")

// Ask sends a review and decodes the response into answer. It retries with increasing delays while
// the webhook is unreachable or reports a server error.
func (w *Webhook) Ask(ctx context.Context, review, answer any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("ask the webhook of %s: %w", w.What, err)
	}
	var last error
	err = wait.ExponentialBackoffWithContext(ctx, w.backoff(), func(ctx context.Context) (bool, error) {
		began := time.Now()
		last = w.attempt(ctx, body, answer)
		if w.Asked != nil {
			w.Asked(last, time.Since(began))
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
	b := wait.Backoff{Duration: w.Pause, Factor: 1.5, Jitter: 0.2, Steps: attempts}
	if b.Duration == 0 {
		b.Duration = defaultPause
	}
	if w.Once {
		b.Steps = 1
	}
	return b
}

func (w *Webhook) attempt(ctx context.Context, review []byte, answer any) error {
	if w.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Timeout)
		defer cancel()
	}
	body, err := w.post(ctx, review)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("read the answer of the webhook of %s: %w", w.What, err)
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
	response, err := w.Client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: ask the webhook of %s: %w", errTemporary, w.What, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("%w: read the answer of the webhook of %s: %w", errTemporary, w.What, err)
	}
	refused := &StatusError{What: w.What, Code: response.StatusCode, Status: response.Status}
	switch code := response.StatusCode; {
	case code >= http.StatusInternalServerError || code == http.StatusTooManyRequests:
		return nil, fmt.Errorf("%w: %w", errTemporary, refused)
	case code != http.StatusOK && code != http.StatusCreated:
		return nil, refused
	}
	return body, nil
}

// StatusError is wrapped by the error for a response code other than 200 or 201.
type StatusError struct {
	What   string // the webhook is of
	Code   int
	Status string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the webhook of %s answers %s", e.What, e.Status)
}
