package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/flags"
)

// Defaults of ListenConfig, as in kube-apiserver.
const (
	DefaultSecurePort              = 6443
	DefaultMaxStreamsPerConnection = 100
	// AnyPort as ListenConfig.SecurePort selects a free port.
	AnyPort = -1
)

// Values of ListenConfig.HTTP2Server.
const (
	HTTP2Mainstay = "mainstay" // package http2
	HTTP2NetHTTP  = "net/http"
)

// ListenConfig configures the listener and its addresses.
type ListenConfig struct {
	// Listener, if not nil, is used instead of a new listener on BindAddress and SecurePort. The server
	// closes it.
	Listener net.Listener
	// BindAddress is the address to listen on. Its zero value selects all addresses if
	// AdvertiseAddress is reachable from other machines, and 127.0.0.1 otherwise.
	BindAddress netip.Addr
	// SecurePort is the port to listen on; 0 selects 6443, and AnyPort selects a free port.
	SecurePort int
	// AdvertiseAddress is the address of the server for other machines. It is part of the serving
	// certificate and of the endpoints of default/kubernetes. Its zero value is derived from
	// BindAddress.
	AdvertiseAddress netip.Addr
	// ExternalHostname is the name of the server, optionally with a port, in the URLs that it
	// publishes, and in the serving certificate; "" selects AdvertiseAddress.
	ExternalHostname string
	// Hostname is the name of this machine; "" selects the host name of the operating system.
	Hostname string
	// PermitPortSharing sets SO_REUSEPORT, so that several processes can listen on the port.
	PermitPortSharing bool
	// DisableHTTP2 serves HTTP/1.1 only.
	DisableHTTP2 bool
	// MaxStreams is the maximum number of concurrent requests of an HTTP/2 connection; 0 selects 100.
	MaxStreams int
	// HTTP2Server selects the implementation of HTTP/2: HTTP2Mainstay (or "") or HTTP2NetHTTP.
	HTTP2Server string

	// bindAll is true if BindAddress was not set and its default is all addresses.
	bindAll bool
}

// AddFlags defines the flags of the config.
func (c *ListenConfig) AddFlags(fs *pflag.FlagSet) {
	flags.AddrVar(fs, &c.BindAddress, "bind-address", "address to listen on; 0.0.0.0 and :: mean all addresses of this machine (default 127.0.0.1, or all addresses if --advertise-address is not a loopback address)")
	flags.PortVar(fs, &c.SecurePort, "secure-port", DefaultSecurePort, "port to listen on; 0 selects a free port, which is printed and written to admin.kubeconfig")
	flags.AddrVar(fs, &c.AdvertiseAddress, "advertise-address", "address under which other machines reach the server; it is part of the serving certificate and of the endpoints of the service default/kubernetes")
	fs.StringVar(&c.ExternalHostname, "external-hostname", "", "name of the server, optionally with a port, in the URLs that it publishes (OpenID discovery), and in the serving certificate")
	fs.BoolVar(&c.PermitPortSharing, "permit-port-sharing", false, "allow several processes to listen on the port (SO_REUSEPORT)")
	fs.BoolVar(&c.DisableHTTP2, "disable-http2-serving", false, "serve HTTP/1.1 only")
	fs.IntVar(&c.MaxStreams, "http2-max-streams-per-connection", DefaultMaxStreamsPerConnection, "maximum number of concurrent requests of an HTTP/2 connection; 0 selects the default")
	fs.StringVar(&c.HTTP2Server, "http2-server", HTTP2Mainstay, "HTTP/2 implementation: mainstay, or the slower net/http, to find out whether mainstay's implementation causes a problem")
}

func (c *ListenConfig) setDefaults() {
	if name, err := os.Hostname(); err == nil {
		setDefault(&c.Hostname, name)
	}
	if !c.BindAddress.IsValid() {
		c.BindAddress = c.defaultBindAddress()
		c.bindAll = c.BindAddress.IsUnspecified()
	}
	setDefault(&c.SecurePort, DefaultSecurePort)
	setDefault(&c.MaxStreams, DefaultMaxStreamsPerConnection)
	setDefault(&c.HTTP2Server, HTTP2Mainstay)
}

// defaultBindAddress returns the default listen address. A server that advertises an address to
// other machines, as in kubeadm's manifest, listens on all addresses of that IP family, as
// kube-apiserver does; IPv6 includes IPv4.
func (c *ListenConfig) defaultBindAddress() netip.Addr {
	switch addr := c.AdvertiseAddress; {
	case !addr.IsValid() || addr.IsLoopback() || addr.IsUnspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case addr.Unmap().Is4():
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (c *ListenConfig) check() error {
	var errs []error
	if c.SecurePort != AnyPort && (c.SecurePort < 1 || c.SecurePort > 65535) {
		errs = append(errs, fmt.Errorf("--secure-port is %d; it must be between 1 and 65535", c.SecurePort))
	}
	if c.MaxStreams < 0 {
		errs = append(errs, fmt.Errorf("--http2-max-streams-per-connection is %d; it cannot be negative", c.MaxStreams))
	}
	if c.HTTP2Server != HTTP2Mainstay && c.HTTP2Server != HTTP2NetHTTP {
		errs = append(errs, fmt.Errorf("--http2-server is %q; it must be %s or %s", c.HTTP2Server, HTTP2Mainstay, HTTP2NetHTTP))
	}
	if name := c.externalName(); c.ExternalHostname != "" && !isHost(name) {
		errs = append(errs, fmt.Errorf("--external-hostname is %q; it must be a host name or IP address, optionally with a port", c.ExternalHostname))
	}
	return errors.Join(errs...)
}

// externalName returns ExternalHostname without its port.
func (c *ListenConfig) externalName() string {
	host, port, err := net.SplitHostPort(c.ExternalHostname)
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil {
		return c.ExternalHostname
	}
	return host
}

// isHost reports whether text is an IP address or a DNS name.
func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || len(validation.IsDNS1123Subdomain(text)) == 0
}

// certificateHosts returns the names and addresses for the serving certificate, sorted. serviceIP is
// the address of the service default/kubernetes.
func (c *ListenConfig) certificateHosts(serviceIP netip.Addr) []string {
	hosts := []string{
		"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		serviceIP.String(),
	}
	for _, name := range []string{c.Hostname, c.externalName()} {
		if name != "" {
			hosts = append(hosts, name)
		}
	}
	for _, addr := range []netip.Addr{c.BindAddress, c.AdvertiseAddress} {
		if addr.IsValid() && !addr.IsUnspecified() {
			hosts = append(hosts, addr.String())
		}
	}
	if c.BindAddress.IsUnspecified() && !c.AdvertiseAddress.IsValid() {
		hosts = append(hosts, machineAddresses()...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// endpoint returns the address for the endpoints of default/kubernetes, selected as in
// kube-apiserver: the advertised address, the bound address, or an address of this machine, in the
// IP family of the service. It returns the zero Addr if other machines cannot use any of these addresses.
func (c *ListenConfig) endpoint(serviceIP netip.Addr) netip.Addr {
	usable := func(addr netip.Addr) bool {
		return addr.IsGlobalUnicast() && addr.Unmap().Is4() == serviceIP.Is4()
	}
	for _, addr := range []netip.Addr{c.AdvertiseAddress, c.BindAddress} {
		if usable(addr) {
			return addr.Unmap()
		}
	}
	for _, text := range machineAddresses() {
		if addr, err := netip.ParseAddr(text); err == nil && usable(addr) {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}

// machineAddresses returns the global unicast addresses of this machine, or nil if they cannot be
// read.
func machineAddresses() []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var found []string
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			found = append(found, ip.IP.String())
		}
	}
	return found
}
