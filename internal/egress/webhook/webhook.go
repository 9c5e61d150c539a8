// Package webhook calls webhooks. It posts a review and returns the response, with limits on time and size.
// Callers define the content of the reviews, for example for admission or for the conversion of custom
// resources.
package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

// Target is the address of a webhook. Either URL or Service is set.
type Target struct {
	URL string
	// Service is the webhook's service. Path is the URL path at the service and may be empty.
	Service *egress.Service
	Path    string
	// CABundle contains the trusted CA certificates in PEM. If it is empty, the CA certificates of
	// the operating system are used.
	CABundle []byte
}

// ServiceReference refers to a service in the client configuration of a webhook. The corresponding types of all
// API groups can be converted to it.
type ServiceReference struct {
	Namespace, Name string
	Path            *string
	Port            *int32
}

// TargetOf returns the target of a webhook's client configuration, which contains a URL or a service. The
// default port of a service is 443. The result retains caBundle.
func TargetOf(url *string, service *ServiceReference, caBundle []byte) Target {
	target := Target{CABundle: caBundle}
	if url != nil {
		target.URL = *url
	}
	if service == nil {
		return target
	}
	target.Service = &egress.Service{Namespace: service.Namespace, Name: service.Name, Port: 443}
	if service.Port != nil {
		target.Service.Port = *service.Port
	}
	if service.Path != nil {
		target.Path = *service.Path
	}
	return target
}

// Clients creates webhook clients. Clients for the same target share a transport; its idle connections are
// closed when the last of these clients is closed. The zero value can call webhooks by URL only. The fields
// must not be modified after the first call, and a Clients must not be copied. Its methods are safe for
// concurrent use.
type Clients struct {
	// Resolver resolves services. If it is nil, Client returns an error for webhooks behind
	// services.
	Resolver egress.Resolver
	// Networks contains the dial functions: Cluster for services, ControlPlane for URLs.
	Networks egress.Networks
	// Users contains the credentials for webhooks by host; nil means no credentials.
	Users *kubeconfig.Users

	mu struct {
		sync.Mutex
		shared map[string]*sharedTransport
	}
}

// sharedTransport is the transport of all clients for one target.
type sharedTransport struct {
	transport   *http.Transport
	url         *url.URL
	credentials *kubeconfig.Credentials
	users       int // number of open clients; guarded by Clients.mu
}

// Client calls one webhook. It is safe for concurrent use.
type Client struct {
	clients *Clients
	key     string
	*sharedTransport
	closed sync.Once
}

// Client returns a client for a webhook without connecting. It returns an error if the target or
// its credentials are invalid. The caller must close the client.
func (c *Clients) Client(target Target) (*Client, error) {
	key := target.key()
	c.mu.Lock()
	defer c.mu.Unlock()
	shared := c.mu.shared[key]
	if shared == nil {
		var err error
		if shared, err = c.connect(&target); err != nil {
			return nil, err
		}
		if c.mu.shared == nil {
			c.mu.shared = map[string]*sharedTransport{}
		}
		c.mu.shared[key] = shared
	}
	shared.users++
	return &Client{clients: c, key: key, sharedTransport: shared}, nil
}

// key returns a string that is equal for equal targets.
func (t *Target) key() string {
	where := "url " + t.URL
	if t.Service != nil {
		where = "service " + t.Service.String() + " " + strconv.Quote(t.Path)
	}
	return where + "\n" + string(t.CABundle)
}

// maxHeaderBytes is the maximum size of response headers, in bytes.
const maxHeaderBytes = 64 << 10

func (c *Clients) connect(target *Target) (*sharedTransport, error) {
	// HTTP/1.1 connections spread over the endpoints of a service; a single HTTP/2 connection would send all
	// calls to one endpoint.
	to := &egress.Target{Service: target.Service, Resolver: c.Resolver, CABundle: target.CABundle, HTTP1: true, Dial: c.Networks.ControlPlane}
	var at url.URL
	switch {
	case target.Service != nil && c.Resolver == nil:
		return nil, fmt.Errorf("webhook behind service %s: no resolver for services", target.Service)
	case target.Service != nil:
		to.Dial = c.Networks.Cluster
		at = *to.Base()
		at.Path = path.Join("/", target.Path)
	case target.URL == "":
		return nil, errors.New("webhook configuration must have either service or URL")
	default:
		parsed, err := url.Parse(target.URL)
		if err != nil {
			return nil, fmt.Errorf("unparsable URL: %w", err)
		}
		to.URL = parsed
		at = url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: path.Join("/", parsed.Path)}
	}
	credentials, err := c.Users.CredentialsFor(at.Hostname(), cmp.Or(at.Port(), "443"))
	if err != nil {
		return nil, err
	}
	if credentials != nil {
		to.Certificate = credentials.Certificate
	}
	transport, err := to.Transport()
	if err != nil {
		return nil, err
	}
	transport.MaxResponseHeaderBytes = maxHeaderBytes
	return &sharedTransport{transport: transport, url: &at, credentials: credentials}, nil
}

// Close closes the idle connections if no other client uses them. It does not interrupt calls in
// progress. It may be called more than once.
func (c *Client) Close() {
	c.closed.Do(func() {
		c.clients.mu.Lock()
		c.users--
		last := c.users == 0
		if last {
			delete(c.clients.mu.shared, c.key)
		}
		c.clients.mu.Unlock()
		if last {
			c.transport.CloseIdleConnections()
		}
	})
}

// CloseIdleConnections closes the idle connections of all clients. It does not interrupt calls in
// progress.
func (c *Clients) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, shared := range c.mu.shared {
		shared.transport.CloseIdleConnections()
	}
}

// String returns the URL of the webhook.
func (c *Client) String() string { return strings.TrimSuffix(c.url.String(), "/") }
