// Package kubelet connects to nodes and their pods. It determines the addresses of kubelets and verifies their
// certificates. It forwards logs, and the streams of exec, attach and port-forward, between clients and
// kubelets, and translates between their protocols. Its callers select the pod and container and authorize the
// request.
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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/feature"
)

// DefaultPort is the port of kubelets whose node does not report a port.
const DefaultPort = 10250

// DefaultTimeout is the default timeout for connecting to a kubelet.
const DefaultTimeout = 5 * time.Second

// DefaultAddressTypes returns the types of node addresses in the default order of preference. The
// caller owns the slice.
func DefaultAddressTypes() []string {
	return []string{
		string(corev1.NodeHostName), string(corev1.NodeInternalDNS), string(corev1.NodeInternalIP),
		string(corev1.NodeExternalDNS), string(corev1.NodeExternalIP),
	}
}

// Config configures the connections to kubelets. Only Proxy is required. Without Authorities,
// certificates are not verified.
type Config struct {
	// AddressTypes are types of node addresses in the order of preference; empty selects
	// DefaultAddressTypes.
	AddressTypes []string
	// Port is the port of kubelets whose node does not report a port; 0 selects DefaultPort.
	Port int
	// Timeout is the timeout for connecting to a kubelet, pod or service; 0 selects DefaultTimeout.
	Timeout time.Duration
	// Certificate returns the client certificate for a connection to a kubelet; nil means no client
	// certificate.
	Certificate func() (*tls.Certificate, error)
	// Authorities returns the CA certificates that verify kubelet certificates. As in kube-apiserver, nil
	// disables the verification.
	Authorities func() *x509.CertPool
	// Dial connects to kubelets, pods and services; nil connects directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// AnyAddress permits requests to pods, services and nodes with loopback and link-local
	// addresses.
	AnyAddress bool
	Gates      feature.Gates
	// Proxy forwards requests and upgraded connections.
	Proxy *proxy.Proxy
}

// Client connects to the kubelets, pods and services of a cluster. It is safe for concurrent use.
type Client struct {
	config Config

	mu struct {
		sync.Mutex
		transports *transports // nil before the first use
	}
}

// transports contains the HTTP transports of a Client.
type transports struct {
	// kubelets is for requests that the server itself sends to kubelets. proxied is for user requests to the
	// proxy subresource of nodes; it rejects node addresses that Client.AllowedAddress does not permit.
	kubelets, proxied nodeTransport
	// unverified is for requests without verification of the kubelet's certificate; direct is for
	// pods, services and other ports of nodes.
	unverified, direct *http.Transport
}

// New returns a client. It does not connect.
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
	return &Client{config: config}
}

// transports returns the transports. The first call creates them.
func (c *Client) transports() *transports {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.transports == nil {
		c.mu.transports = c.newTransports()
	}
	return c.mu.transports
}

func (c *Client) newTransports() *transports {
	dialProxied := c.dial()
	if !c.config.AnyAddress {
		dialProxied = c.dialAllowed()
	}
	return &transports{
		kubelets: c.nodeTransport(c.dial()), proxied: c.nodeTransport(dialProxied),
		unverified: withHTTP2(c.transport(c.dial(), c.tlsConfig())),
		// The certificates of pods and services do not contain their addresses.
		direct: c.transport(dialProxied, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}),
	}
}

const keepAlive = 30 * time.Second

// transport returns an HTTP/1.1 transport, whose connections can be upgraded.
func (c *Client) transport(dial dialFunc, config *tls.Config) *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:     dial,
		TLSClientConfig: config, Protocols: protocols, DisableCompression: true,
		TLSHandshakeTimeout: c.config.Timeout, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
		MaxResponseHeaderBytes: 1 << 20,
		// Small buffers keep the memory of idle connections low. Larger reads bypass them, so they do not slow
		// down the copying of logs.
		ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10,
	}
}

// Limits of HTTP/2 connections to kubelets.
const (
	// followWindow is the maximum amount of log data that is buffered for a slow client, in bytes. It limits
	// the rate of a log to about 128 MB/s if the latency to the kubelet is a millisecond.
	followWindow = 128 << 10
	// Connections without data for pingIdle are pinged, and closed if there is no response within
	// pingTimeout, as in kube-apiserver.
	pingIdle    = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// withHTTP2 enables HTTP/2, so that all log requests to a node share a connection.
func withHTTP2(t *http.Transport) *http.Transport {
	t.Protocols.SetHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: followWindow, SendPingTimeout: pingIdle, PingTimeout: pingTimeout}
	return t
}

// Transport returns the shared transport for user requests to kubelets. It supports upgrades.
// Unless Config.AnyAddress is set, it connects only to addresses that AllowedAddress permits.
func (c *Client) Transport() http.RoundTripper { return &c.transports().proxied }

// Direct returns the shared transport for user requests to pods, services and other ports of nodes.
// It does not verify certificates. It supports upgrades. Unless Config.AnyAddress is set, it
// connects only to addresses that AllowedAddress permits.
func (c *Client) Direct() http.RoundTripper { return c.transports().direct }

// Close closes idle connections. It does not interrupt requests in progress.
func (c *Client) Close() {
	c.mu.Lock()
	t := c.mu.transports
	c.mu.Unlock()
	if t == nil {
		return
	}
	t.kubelets.close()
	t.proxied.close()
	t.unverified.CloseIdleConnections()
	t.direct.CloseIdleConnections()
}

// ConnectionInfo contains the address of a kubelet and the protocols that it supports.
type ConnectionInfo struct {
	Host string // IP address or DNS name
	Port string
	// WebSockets reports whether the kubelet supports the WebSocket protocols of clients, so that no
	// translation is required.
	WebSockets bool
}

// ConnectionInfo returns the connection information of the kubelet of a node. It returns an error
// if the node has no address of the configured types.
func (c *Client) ConnectionInfo(node *corev1.Node) (*ConnectionInfo, error) {
	host, err := c.address(node)
	if err != nil {
		return nil, err
	}
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port <= 0 {
		port = c.config.Port
	}
	return &ConnectionInfo{
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

// URL returns a new https URL of the kubelet without a path.
func (l *ConnectionInfo) URL() *url.URL { return l.url("", nil) }

func (l *ConnectionInfo) url(path string, query url.Values) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(l.Host, l.Port), Path: path, RawQuery: query.Encode()}
}

// errRedirect reports that a backend responded with a redirect. Following the redirect would send the server's
// credentials to another server.
var errRedirect = errors.New("the backend attempted to redirect this request, which is not permitted")
