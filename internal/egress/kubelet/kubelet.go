// Package kubelet connects to nodes and their pods: it determines the addresses of kubelets,
// verifies their certificates, and forwards logs and the streams of exec, attach and port-forward
// between clients and kubelets, with protocol translation. Its callers select the pod and container
// and authorize the request.
package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/feature"
)

// DefaultPort is the port of kubelets that do not report theirs.
const DefaultPort = 10250

// DefaultTimeout bounds how long a connection to a kubelet may take to be
// established.
const DefaultTimeout = 5 * time.Second

// DefaultAddressTypes are the types of a node's address, in the order in which they
// are looked for.
func DefaultAddressTypes() []string {
	return []string{
		string(corev1.NodeHostName), string(corev1.NodeInternalDNS), string(corev1.NodeInternalIP),
		string(corev1.NodeExternalDNS), string(corev1.NodeExternalIP),
	}
}

// Config configures the connections to kubelets. The zero value is valid and accepts any
// certificate.
type Config struct {
	// AddressTypes is an order of DefaultAddressTypes; empty selects the default.
	AddressTypes []string
	// Port is that of kubelets that do not report theirs; 0: DefaultPort.
	Port int
	// Timeout bounds the establishing of a connection; 0: DefaultTimeout.
	Timeout time.Duration
	// Certificate returns the client certificate; nil without one.
	Certificate func() (*tls.Certificate, error)
	// Authorities returns the authorities that sign the certificates of kubelets. As
	// in kube-apiserver, nil means that these are not verified.
	Authorities func() *x509.CertPool
	// Dial connects to kubelets, pods and services; nil does directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// AnyAddress permits requests to pods, services and nodes with loopback and link-local
	// addresses.
	AnyAddress bool
	Gates      feature.Gates
	// Proxy passes requests on. Required.
	Proxy *proxy.Proxy
}

// Client reaches the kubelets of a cluster. It is safe for concurrent use.
type Client struct {
	config Config
	// kubelets sends requests of the server to kubelets. proxied sends user requests to the proxy
	// subresource of nodes, and rejects node addresses outside the cluster.
	kubelets, proxied nodeTransport
	// unverified is for requests without verification of the kubelet's certificate; direct is for
	// pods, services and other ports of nodes.
	unverified, direct *http.Transport
}

// New returns a client without connecting.
func New(config Config) *Client {
	if len(config.AddressTypes) == 0 {
		config.AddressTypes = DefaultAddressTypes()
	}
	if config.Port == 0 {
		config.Port = DefaultPort
	}
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	c := &Client{config: config}
	dialProxied := c.dial()
	if !config.AnyAddress {
		dialProxied = c.dialAllowed()
	}
	c.kubelets, c.proxied = c.nodeTransport(c.dial()), c.nodeTransport(dialProxied)
	c.unverified = withHTTP2(c.transport(c.dial(), c.tlsConfig()))
	// Pods and services are reached at addresses that no certificate names.
	c.direct = c.transport(dialProxied, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	return c
}

const keepAlive = 30 * time.Second

// transport returns a transport of HTTP/1.1, the protocol that can be upgraded.
func (c *Client) transport(dial dialFunc, config *tls.Config) *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:     dial,
		TLSClientConfig: config, Protocols: protocols, DisableCompression: true,
		TLSHandshakeTimeout: c.config.Timeout, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
		MaxResponseHeaderBytes: 1 << 20,
		// Larger reads bypass these buffers: logs are copied from TLS records, and waiting
		// connections use little memory.
		ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10,
	}
}

// Limits of HTTP/2 connections to kubelets.
const (
	// followWindow is the maximum buffered amount of a log for a slow client, in bytes. With a
	// latency of a millisecond, a log may have 128 MB/s.
	followWindow = 128 << 10
	// A connection that is silent for pingIdle is pinged, and closed without an answer
	// within pingTimeout, as kube-apiserver's.
	pingIdle    = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// withHTTP2 has a transport speak HTTP/2 to kubelets that do, as all do by default: the logs
// that are followed on a node share a connection.
func withHTTP2(t *http.Transport) *http.Transport {
	t.Protocols.SetHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: followWindow, SendPingTimeout: pingIdle, PingTimeout: pingTimeout}
	return t
}

// Transport returns the transport for requests that users send to kubelets, Direct the one
// for pods, services and other ports of nodes. Both also upgrade connections, and unless
// Config.AnyAddress is set, both connect to addresses of the cluster only.
func (c *Client) Transport() http.RoundTripper { return &c.proxied }

// Direct: see Transport.
func (c *Client) Direct() http.RoundTripper { return c.direct }

// Close closes idle connections; others end with their requests.
func (c *Client) Close() {
	c.kubelets.close()
	c.proxied.close()
	c.unverified.CloseIdleConnections()
	c.direct.CloseIdleConnections()
}

// Location is where a kubelet is.
type Location struct {
	Host string // an address or name
	Port string
	// WebSockets: the kubelet speaks all protocols over WebSockets that clients do.
	WebSockets bool
}

// Of returns the location of the kubelet of a node.
func (c *Client) Of(node *corev1.Node) (*Location, error) {
	host, err := c.address(node)
	if err != nil {
		return nil, err
	}
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port <= 0 {
		port = c.config.Port
	}
	return &Location{
		Host: host, Port: strconv.Itoa(port),
		WebSockets: c.config.Gates.Enabled(feature.ExtendWebSocketsToKubelet) &&
			slices.Contains(node.Status.DeclaredFeatures, string(feature.ExtendWebSocketsToKubelet)),
	}, nil
}

func (c *Client) address(node *corev1.Node) (string, error) {
	for _, wanted := range c.config.AddressTypes {
		for _, address := range node.Status.Addresses {
			if string(address.Type) == wanted {
				return address.Address, nil
			}
		}
		if name := node.Labels[corev1.LabelHostname]; wanted == string(corev1.NodeHostName) && name != "" {
			return name, nil
		}
	}
	return "", fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
}

// URL returns the URL of the kubelet's root.
func (l *Location) URL() *url.URL { return l.url("", nil) }

// url returns a URL of the kubelet.
func (l *Location) url(path string, query url.Values) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(l.Host, l.Port), Path: path, RawQuery: query.Encode()}
}

// errRedirect is the error of an answer that sends the server elsewhere, with its
// credentials.
var errRedirect = errors.New("the backend attempted to redirect this request, which is not permitted")
