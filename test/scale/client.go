package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// requestTimeout is much longer than the duration of a request on a busy machine.
	requestTimeout = 2 * time.Minute

	jsonType       = "application/json"
	mergeType      = "application/merge-patch+json"
	strategicType  = "application/strategic-merge-patch+json"
	applyType      = "application/apply-patch+yaml"
	protobufAccept = "application/vnd.kubernetes.protobuf"
)

// client is a user with its own connections. It does not decode responses, because the resource usage of
// clients is not measured.
type client struct {
	config *rest.Config
	tls    *tls.Config
	http   *http.Client
	header http.Header // of each request
}

// newClient returns a client with the credentials in a kubeconfig.
func newClient(kubeconfig string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	return clientOf(config)
}

func clientOf(config *rest.Config) (*client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the client's certificate: %w", err)
	}
	c := &client{config: config, tls: tls}
	if config.BearerToken != "" {
		c.header = http.Header{"Authorization": {"Bearer " + config.BearerToken}}
	}
	return c.another(), nil
}

// another returns a client for the same user that has its own connections.
func (c *client) another() *client {
	transport := &http.Transport{TLSClientConfig: c.tls.Clone(), ForceAttemptHTTP2: true, DisableCompression: true}
	return &client{config: c.config, tls: c.tls, http: &http.Client{Transport: transport}, header: c.header}
}

// impersonating returns a client that uses the same connections and impersonates a user.
func (c *client) impersonating(user string, groups ...string) *client {
	header := http.Header{"Impersonate-User": {user}, "Impersonate-Group": append(groups, "system:authenticated")}
	return &client{config: c.config, tls: c.tls, http: c.http, header: header}
}

// as returns a client that authenticates with a token instead of a certificate.
func (c *client) as(token string) (*client, error) {
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	return clientOf(config)
}

func (c *client) close() { c.http.CloseIdleConnections() }

// request describes an HTTP request. A body that is neither nil nor a byte slice is sent as JSON.
type request struct {
	method, path string
	contentType  string // jsonType if empty
	accept       string // jsonType if empty
	body         any
}

// statusError is the error for a response with an error status.
type statusError struct {
	request string
	code    int
	metav1.Status
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.request, e.code, e.Reason, e.Message)
}

// unavailable reports whether the server was temporarily unable to process any request.
func (e *statusError) unavailable() bool {
	return e.code == http.StatusTooManyRequests || e.code >= http.StatusInternalServerError || e.code == http.StatusUnauthorized
}

// isCode reports whether err is a statusError with one of the given status codes.
func isCode(err error, codes ...int) bool {
	var answered *statusError
	if !errors.As(err, &answered) {
		return false
	}
	for _, code := range codes {
		if answered.code == code {
			return true
		}
	}
	return false
}

// send sends a request. It returns an error unless the response is successful. The caller must close the body.
func (c *client) send(ctx context.Context, r request) (*http.Response, error) {
	body, err := r.encoded()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.config.Host+r.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.header)
	req.Header.Set("Accept", cmp.Or(r.accept, jsonType))
	if body != nil {
		req.Header.Set("Content-Type", cmp.Or(r.contentType, jsonType))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	refused := &statusError{request: r.method + " " + r.path, code: resp.StatusCode}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, &refused.Status) != nil {
		refused.Message = string(data) // the body is not a Status
	}
	return nil, refused
}

func (r *request) encoded() ([]byte, error) {
	switch body := r.body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return body, nil
	default:
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode a request: %w", err)
		}
		return data, nil
	}
}

// do sends a request and returns the complete response body.
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: path})
}

func (c *client) create(ctx context.Context, path string, body any) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: path, body: body})
	return err
}

func (c *client) remove(ctx context.Context, path string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: path})
	return err
}

// await polls path until it exists or, if there is false, until it no longer exists.
func (c *client) await(ctx context.Context, path string, there bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := c.get(ctx, path)
		switch {
		case err == nil && there, isCode(err, http.StatusNotFound) && !there:
			return nil
		case err != nil && !isCode(err, http.StatusNotFound):
			return fmt.Errorf("await %s: %w", path, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
