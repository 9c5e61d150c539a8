// Package egress makes the HTTP transports by which this server calls others,
// aggregated API servers and webhooks: it resolves services to addresses, and
// configures the CA certificates to trust and the client certificate to present.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Resolver resolves services to addresses. It must be safe for concurrent use.
type Resolver interface {
	// Resolve returns the host:port of a service. Its errors reach users.
	Resolve(ctx context.Context, service Service) (string, error)
}

// ResolveError reports that the service of a request could not be resolved.
type ResolveError struct {
	Service Service
	Err     error
}

func (e *ResolveError) Error() string { return fmt.Sprintf("find service %s: %v", e.Service, e.Err) }
func (e *ResolveError) Unwrap() error { return e.Err }

// Service is a port of a service.
type Service struct {
	Namespace, Name string
	Port            int32
}

// ServerName returns the name in the service's certificate.
func (s Service) ServerName() string { return s.Name + "." + s.Namespace + ".svc" }

func (s Service) String() string {
	return s.Namespace + "/" + s.Name + ":" + strconv.Itoa(int(s.Port))
}

// Target is a server to call: at a URL, or behind a service.
type Target struct {
	// URL is the base URL. With Service only its path is used.
	URL *url.URL
	// Service, if set, is resolved by Resolver for each new connection.
	Service  *Service
	Resolver Resolver
	// CABundle are the CA certificates to trust, in PEM; empty: the operating
	// system's.
	CABundle []byte
	// Insecure: the server's certificate is not verified.
	Insecure bool
	// Certificate, if set, returns the client certificate.
	Certificate func() (*tls.Certificate, error)
	// HTTP1 disables HTTP/2, for requests that upgrade the connection.
	HTTP1 bool
	// Dial connects to the target; nil does directly.
	Dial Dial
}

// Base returns the base URL: https://name.namespace.svc:port for a service.
func (t *Target) Base() *url.URL {
	if t.Service == nil {
		return t.URL
	}
	base := &url.URL{Scheme: "https", Host: net.JoinHostPort(t.Service.ServerName(), strconv.Itoa(int(t.Service.Port)))}
	if t.URL != nil {
		base.Path = t.URL.Path
	}
	return base
}

// Transport returns a new transport for the target. The caller closes its idle
// connections when done.
func (t *Target) Transport() (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.Insecure}
	if t.Service != nil {
		config.ServerName = t.Service.ServerName()
	}
	if len(t.CABundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(t.CABundle) {
			return nil, errors.New("the CA bundle has no certificate in PEM")
		}
	}
	if t.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.Certificate() }
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!t.HTTP1)
	return &http.Transport{
		DialContext: t.dial, TLSClientConfig: config, Protocols: protocols,
		Proxy:               t.proxy(),
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
	}, nil
}

// proxy returns the Proxy function of the transport: nil for services, http.ProxyFromEnvironment
// for URLs.
func (t *Target) proxy() func(*http.Request) (*url.URL, error) {
	if t.Service != nil {
		return nil
	}
	return http.ProxyFromEnvironment
}

func (t *Target) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if t.Service != nil {
		resolved, err := t.Resolver.Resolve(ctx, *t.Service)
		if err != nil {
			return nil, &ResolveError{*t.Service, err}
		}
		address = resolved
	}
	if t.Dial != nil {
		return t.Dial(ctx, network, address)
	}
	return direct(ctx, network, address)
}
