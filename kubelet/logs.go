package kubelet

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/rest"
)

// Log is a request for a container's log.
type Log struct {
	At                        *Location
	Namespace, Pod, Container string
	Query                     url.Values
	// Follow: lines are sent on as they come.
	Follow bool
	// Unverified: the user does not want the kubelet's certificate verified.
	Unverified bool
}

// maxErrorText bounds how much of an error a kubelet gets to say, in bytes.
const maxErrorText = 50_000

// Logs returns the handler of a request for a log.
func (c *Client) Logs(l *Log, onError rest.ErrorWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.serveLog(w, r, l); err != nil && r.Context().Err() == nil {
			onError(w, r, err)
		}
	})
}

// serveLog returns the error of a log that could not be begun.
func (c *Client) serveLog(w http.ResponseWriter, r *http.Request, l *Log) error {
	at := l.At.url(fmt.Sprintf("/containerLogs/%s/%s/%s", l.Namespace, l.Pod, l.Container), l.Query)
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at.String(), nil)
	if err != nil {
		return fmt.Errorf("make the request for a log: %w", err)
	}
	transport := c.verified
	if l.Unverified {
		transport = c.unverified
	}
	response, err := transport.RoundTrip(request) // which follows no redirect
	if err != nil {
		return &url.Error{Op: "Get", URL: at.String(), Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode >= 300 && response.StatusCode <= 399:
		return &url.Error{Op: "Get", URL: at.String(), Err: errors.New("redirects forbidden")}
	case response.StatusCode < 200 || response.StatusCode > http.StatusPartialContent:
		return logError(response, l.Pod)
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	var flush func() error
	if l.Follow {
		flush = http.NewResponseController(w).Flush
		_ = flush() // so that the client knows before the first line
	}
	if _, err := c.config.Proxy.Copy(w, response.Body, flush); err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the log is not whole
	}
	return nil
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
