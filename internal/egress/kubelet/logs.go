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
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Log is a request for the log of a container.
type Log struct {
	Kubelet                   *ConnectionInfo
	Namespace, Pod, Container string
	Query                     url.Values
	// Follow causes each line to be sent as soon as it arrives from the kubelet.
	Follow bool
	// InsecureSkipTLSVerify disables the verification of the kubelet's certificate, at the request
	// of the user.
	InsecureSkipTLSVerify bool
}

// maxErrorText is the maximum size of an error text from a kubelet, in bytes. Longer texts are
// truncated.
const maxErrorText = 50_000

// Logs returns the handler of a request for a log. onError writes the response if the log cannot be
// read.
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

// openLog requests a log from a kubelet. The caller must close the result.
func (c *Client) openLog(ctx context.Context, l *Log) (io.ReadCloser, error) {
	at := l.Kubelet.url(fmt.Sprintf("/containerLogs/%s/%s/%s", l.Namespace, l.Pod, l.Container), l.Query)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("create the request for a log: %w", err)
	}
	tracing.Inject(ctx, request.Header)
	transport := c.transports().kubelets.plain
	if l.InsecureSkipTLSVerify {
		transport = c.transports().unverified
	}
	response, err := transport.RoundTrip(request) // does not follow redirects
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

// sendLog sends a log. It releases the memory of the client's request first, because a log may be
// followed for a long time.
func (c *Client) sendLog(w http.ResponseWriter, r *http.Request, text io.ReadCloser, follow bool) {
	defer func() { _ = text.Close() }()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	request.Release(r)
	var flush func() error
	if follow {
		flush = http.NewResponseController(w).Flush
		_ = flush() // the client receives the header before the first line
	}
	if _, err := c.config.Proxy.Copy(w, text, flush); err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the log is incomplete
	}
}

// logError converts an error response of a kubelet to an API error.
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
