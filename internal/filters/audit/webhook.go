package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

// Limits of calls to the webhook, as in kube-apiserver.
const (
	webhookTimeout  = 30 * time.Second // per attempt
	webhookAttempts = 5
)

// maxDrained is the maximum number of bytes of a response body that are read before the body is
// closed. A connection can be reused only if the body was read completely.
const maxDrained = 64 << 10

// webhook is the webhook backend. It sends each batch as an EventList in a POST request.
type webhook struct {
	client  *http.Client
	url     string
	backoff time.Duration // delay before the second attempt
}

func openWebhook(options *WebhookOptions, dial egress.Dial) (*webhook, error) {
	client, url, err := kubeconfig.Client(options.ConfigFile, dial)
	if err != nil {
		return nil, fmt.Errorf("initializing audit webhook: %w", err)
	}
	// Events must not be sent to another server after a redirect.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &webhook{client: client, url: url, backoff: options.InitialBackoff}, nil
}

func (w *webhook) name() string { return nameWebhook }

func (w *webhook) item(e encoded) []byte { return e.item() }

func (w *webhook) close() error {
	w.client.CloseIdleConnections()
	return nil
}

// send implements output. It retries after every error, because nearly all errors can be temporary.
func (w *webhook) send(ctx context.Context, items [][]byte) (lost int, err error) {
	list := eventList(items)
	backoff := wait.Backoff{Duration: w.backoff, Factor: 1.5, Jitter: 0.2, Steps: webhookAttempts}
	var last error
	err = wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		last = w.post(ctx, list)
		return last == nil, nil
	})
	switch {
	case err == nil:
		return 0, nil
	case last != nil:
		err = last
	}
	return len(items), err
}

// eventList returns items as an EventList.
func eventList(items [][]byte) []byte {
	list := []byte(`{"kind":"EventList","apiVersion":"` + APIVersion + `","metadata":{},"items":[`)
	for i, item := range items {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(list, '{'), item...)
	}
	return append(list, "]}\n"...)
}

func (w *webhook) post(ctx context.Context, list []byte) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(list))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, */*")
	response, err := w.client.Do(r)
	if err != nil {
		return fmt.Errorf("post audit events: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, maxDrained)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("post audit events: the webhook responded with %s", response.Status)
	}
	return nil
}
