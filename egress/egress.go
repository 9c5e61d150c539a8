// Package egress is how this server calls others: aggregated API servers and
// webhooks. It finds where a service is and makes the HTTP client that talks
// to it, with the certificates that are to be trusted and shown.
//
// Imports: nothing of ours.
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

// Resolver finds where a service is to be reached.
type Resolver interface {
	// Resolve returns host:port of a service of the cluster. Errors are for
	// people: what is missing, by name.
	Resolve(ctx context.Context, service Service) (string, error)
}

// ResolveError is the error of calls whose service could not be found.
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

// ServerName is the name that the service's certificate is for.
func (s Service) ServerName() string { return s.Name + "." + s.Namespace + ".svc" }

func (s Service) String() string {
	return s.Namespace + "/" + s.Name + ":" + strconv.Itoa(int(s.Port))
}

// Target is a server to call: at a URL, or behind a service.
type Target struct {
	// URL is where requests go. Behind a service only its path is looked at.
	URL *url.URL
	// Service is set for a server behind a service; Resolver then finds it for
	// each new connection.
	Service  *Service
	Resolver Resolver
	// CABundle are PEM certificates that the server's must come from; the
	// machine's own when empty.
	CABundle []byte
	// Insecure: the server's certificate is not looked at.
	Insecure bool
	// Certificate, where set, returns what this server shows of itself.
	Certificate func() (*tls.Certificate, error)
	// HTTP1 alone is spoken, for requests that change the protocol.
	HTTP1 bool
}

// dialTimeout bounds the wait for a connection.
const dialTimeout = 30 * time.Second

// Base returns the URL that paths are added to: https://name.namespace.svc:port
// for a service.
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

// Transport returns a transport for the target, which keeps connections. Its
// owner closes idle ones when it is done with it. Redirects are not its
// affair: clients that should not follow them say so.
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

// proxy: services are near, all else is called as the environment says.
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
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
}
