// Package egress creates the HTTP transports for calls to other servers, such as aggregated API
// servers and webhooks. It resolves services to addresses, and configures CA certificates and the
// client certificate.
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
	// Resolve returns the host:port of a service. Its errors are reported to users. It may block until ctx
	// ends.
	Resolve(ctx context.Context, service Service) (string, error)
}

// ResolveError reports that the target service of a request could not be resolved.
type ResolveError struct {
	Service Service
	Err     error
}

func (e *ResolveError) Error() string { return fmt.Sprintf("find service %s: %v", e.Service, e.Err) }
func (e *ResolveError) Unwrap() error { return e.Err }

// Service identifies a port of a service. It is comparable.
type Service struct {
	Namespace, Name string
	Port            int32
}

// ServerName returns the DNS name NAME.NAMESPACE.svc, which the service's certificate must contain.
func (s Service) ServerName() string { return s.Name + "." + s.Namespace + ".svc" }

func (s Service) String() string {
	return s.Namespace + "/" + s.Name + ":" + strconv.Itoa(int(s.Port))
}

// Target describes a server to call, by URL or by service. It must not be modified after Transport has been
// called.
type Target struct {
	// URL is the base URL. If Service is set, only the path is used, and URL may be nil.
	URL *url.URL
	// Service, if set, is resolved by Resolver for each new connection.
	Service  *Service
	Resolver Resolver
	// CABundle contains the trusted CA certificates in PEM. If it is empty, the CA certificates of
	// the operating system are used.
	CABundle []byte
	// Insecure disables the verification of the server's certificate.
	Insecure bool
	// Certificate returns the client certificate for a new connection; nil means no client
	// certificate.
	Certificate func() (*tls.Certificate, error)
	// HTTP1 disables HTTP/2, for requests that upgrade the connection.
	HTTP1 bool
	// Dial connects to the target; nil connects directly.
	Dial Dial
}

// Base returns the base URL of requests. For a service, it is a new URL that consists of
// https://NAME.NAMESPACE.svc:PORT and the path of URL. Otherwise, it is URL itself.
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

// Transport returns a new transport for the target. It returns an error if CABundle contains no
// certificate. The caller should call CloseIdleConnections when it no longer needs the transport.
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
		DialContext: t.dial, TLSClientConfig: config, Protocols: protocols, HTTP2: HTTP2Pings(),
		Proxy:               t.proxy(),
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
	}, nil
}

// HTTP2Pings returns the configuration of HTTP/2 connections to other servers. As in kube-apiserver,
// connections without data for 30 seconds are pinged, and closed if there is no response within 15 seconds.
// Without pings, all requests would time out for about 15 minutes after the other server has lost its power or
// its network, because the kernel keeps the connection open for that long.
func HTTP2Pings() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
}

// proxy returns the Proxy function of the transport. It is nil for services, and http.ProxyFromEnvironment for
// URLs.
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
