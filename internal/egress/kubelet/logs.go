package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// Log is a request for a container's log.
type Log struct {
	At                        *Location
	Namespace, Pod, Container string
	Query                     url.Values
	// Follow: lines are sent as they arrive.
	Follow bool
	// Unverified: the user does not want the kubelet's certificate verified.
	Unverified bool
}

// maxErrorText is the maximum size of a kubelet's error text, in bytes.
const maxErrorText = 50_000

// Logs returns the handler of a request for a log.
func (c *Client) Logs(l *Log, onError rest.ErrorWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := c.openLog(r.Context(), l)
		switch {
		case err == nil && wsstream.IsWebSocketRequest(r):
			c.sendLogMessages(w, r, text)
		case err == nil:
			c.sendLog(w, r, text, l.Follow)
		case r.Context().Err() == nil:
			onError(w, r, err)
		}
	})
}

// openLog requests a log from a kubelet.
func (c *Client) openLog(ctx context.Context, l *Log) (io.ReadCloser, error) {
	at := l.At.url(fmt.Sprintf("/containerLogs/%s/%s/%s", l.Namespace, l.Pod, l.Container), l.Query)
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request for a log: %w", err)
	}
	transport := c.kubelets.plain
	if l.Unverified {
		transport = c.unverified
	}
	response, err := transport.RoundTrip(asked) // which follows no redirect
	if err != nil {
		return nil, &url.Error{Op: "Get", URL: at.String(), Err: err}
	}
	switch {
	case response.StatusCode >= 300 && response.StatusCode <= 399:
		err = &url.Error{Op: "Get", URL: at.String(), Err: errors.New("redirects forbidden")}
	case response.StatusCode < 200 || response.StatusCode > http.StatusPartialContent:
		err = logError(response, l.Pod)
	default:
		return response.Body, nil
	}
	_ = response.Body.Close()
	return nil, err
}

// sendLog sends a log. While it waits for lines of one that is followed, the requests, the
// client's and its own, are garbage.
func (c *Client) sendLog(w http.ResponseWriter, r *http.Request, text io.ReadCloser, follow bool) {
	defer func() { _ = text.Close() }()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	request.Release(r)
	var flush func() error
	if follow {
		flush = http.NewResponseController(w).Flush
		_ = flush() // so that the client receives the header before the first line
	}
	if _, err := c.config.Proxy.Copy(w, text, flush); err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the log is not whole
	}
}

// logError makes an API error of a kubelet's.
func logError(response *http.Response, pod string) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxErrorText))
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case response.StatusCode == http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(string(text)))
	case response.StatusCode == http.StatusBadRequest:
		return apierrors.NewBadRequest(string(text))
	}
	resource := schema.GroupResource{Resource: "pods/log"}
	return apierrors.NewGenericServerResponse(response.StatusCode, "", resource, pod, string(text), 0, false)
}
