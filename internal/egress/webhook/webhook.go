// Package webhook calls webhooks: it posts a review and returns the response, with limits on time
// and size. Its callers define the content of reviews: conversion of custom resources, admission.
package webhook

import (
	"cmp"
	"crypto/tls"
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
	// Service, and the path there, which may be empty.
	Service *egress.Service
	Path    string
	// CABundle are the CA certificates to trust, in PEM; empty: the operating
	// system's.
	CABundle []byte
}

// ServiceReference is how client configurations of the API name a service. Each group
// has a type of its own for it, which converts to this one.
type ServiceReference struct {
	Namespace, Name string
	Path            *string
	Port            *int32
}

// TargetOf returns the target of a client configuration: its URL or its service, with the default
// port 443.
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

// Clients are the connections of a server to webhooks. The Clients of one target share connections,
// which the last one closes. The zero value with Resolver is ready for use; it must not be copied.
type Clients struct {
	// Resolver finds services. Without one, webhooks behind services cannot be
	// called.
	Resolver egress.Resolver
	// Networks are the networks of webhooks: Cluster for services, ControlPlane for URLs.
	Networks egress.Networks
	// Users are the credentials for webhooks by their hosts; may be nil.
	Users *kubeconfig.Users

	mu struct {
		sync.Mutex
		shared map[string]*connections
	}
}

// connections are the connections to one target.
type connections struct {
	transport   *http.Transport
	url         *url.URL
	credentials *kubeconfig.Credentials
	users       int // guarded by Clients.mu
}

// Client calls one webhook. It is safe for concurrent use.
type Client struct {
	clients *Clients
	key     string
	*connections
	closed sync.Once
}

// Client returns a client of a webhook. The caller must close it.
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
			c.mu.shared = map[string]*connections{}
		}
		c.mu.shared[key] = shared
	}
	shared.users++
	return &Client{clients: c, key: key, connections: shared}, nil
}

// key returns a string that is equal for equal targets.
func (t *Target) key() string {
	where := "url " + t.URL
	if t.Service != nil {
		where = "service " + t.Service.String() + " " + strconv.Quote(t.Path)
	}
	return where + "\n" + string(t.CABundle)
}

// maxHeaderBytes bounds the headers of a response.
const maxHeaderBytes = 64 << 10

func (c *Clients) connect(target *Target) (*connections, error) {
	// HTTP/1.1 connections spread over the endpoints of a service; a single HTTP/2
	// connection would send all calls to one of them.
	to := &egress.Target{Service: target.Service, Resolver: c.Resolver, CABundle: target.CABundle, HTTP1: true, Dial: c.Networks.ControlPlane}
	var at url.URL
	switch {
	case target.Service != nil && c.Resolver == nil:
		return nil, fmt.Errorf("webhook behind service %s: services cannot be found", target.Service)
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
	credentials, err := c.Users.For(at.Hostname(), cmp.Or(at.Port(), "443"))
	if err != nil {
		return nil, err
	}
	if credentials != nil && credentials.Certificate != nil {
		to.Certificate = func() (*tls.Certificate, error) { return credentials.Certificate, nil }
	}
	transport, err := to.Transport()
	if err != nil {
		return nil, err
	}
	transport.MaxResponseHeaderBytes = maxHeaderBytes
	return &connections{transport: transport, url: &at, credentials: credentials}, nil
}

// Close closes the client's connections if no other client uses them. Calls in
// progress are not interrupted. It may be called more than once.
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

// CloseIdleConnections closes the connections without a call in progress.
func (c *Clients) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, shared := range c.mu.shared {
		shared.transport.CloseIdleConnections()
	}
}

// String returns the URL of the webhook.
func (c *Client) String() string { return strings.TrimSuffix(c.url.String(), "/") }
