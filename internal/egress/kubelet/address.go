package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrAddressNotAllowed reports a loopback, link-local, multicast or unspecified address, or a cloud metadata
// address. Such addresses are rejected because, for example, clouds serve the credentials of machines at
// link-local addresses. The transports do not wrap this error, but return a *net.AddrError with the same text.
var ErrAddressNotAllowed = errors.New("address not allowed")

// metadataV6 returns the IPv6 address of the EC2 metadata service, which is not a link-local address.
func metadataV6() netip.Addr { return netip.MustParseAddr("fd00:ec2::254") }

// AllowedAddress reports whether address, an IP address, may be the address of a pod or node. It always returns
// true if Config.AnyAddress is set.
func (c *Client) AllowedAddress(address string) bool {
	if c.config.AnyAddress {
		return true
	}
	ip, err := netip.ParseAddr(address)
	return err == nil && isAllowed(ip)
}

func isAllowed(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsGlobalUnicast() && ip.WithZone("") != metadataV6()
}

// CheckHost returns an error if host must not be the address of a node. host is an IP address or a DNS name;
// all addresses of a name are checked. CheckHost may block for DNS until ctx ends. A name can resolve to other
// addresses later, so Transport and Direct check the address again when they connect.
func (c *Client) CheckHost(ctx context.Context, host string) error {
	if c.config.AnyAddress {
		return nil
	}
	_, err := resolveAllowed(ctx, host)
	return err
}

// resolveAllowed returns the addresses of a DNS name or IP address. It returns an error if there
// are none, or if one of them is not allowed.
func resolveAllowed(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i, ip := range found {
		if !isAllowed(ip) {
			return nil, ErrAddressNotAllowed
		}
		found[i] = ip.Unmap()
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no addresses for hostname")
	}
	return found, nil
}

// dialFunc is the type of net.Dialer.DialContext.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial returns a function that connects without checking the address.
func (c *Client) dial() dialFunc {
	if c.config.Dial == nil {
		return (&net.Dialer{Timeout: c.config.Timeout, KeepAlive: keepAlive}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
		return c.config.Dial(ctx, network, address)
	}
}

// dialAllowed returns a function that dials only allowed addresses. It dials the checked IP
// address, so that a later change of the DNS record (DNS rebinding) has no effect. Config.Dial,
// which may use a different resolver, therefore receives an IP address.
func (c *Client) dialAllowed() dialFunc {
	if c.config.Dial == nil {
		return (&net.Dialer{Timeout: c.config.Timeout, KeepAlive: keepAlive, Control: checkDialAddress}).DialContext
	}
	dial := c.dial()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("parse the address %q: %w", address, err)
		}
		found, err := resolveAllowed(ctx, host)
		if err != nil {
			return nil, &net.AddrError{Err: err.Error(), Addr: address}
		}
		var failed error
		for _, ip := range found {
			conn, err := dial(ctx, network, net.JoinHostPort(ip.String(), port))
			if err == nil {
				return conn, nil
			}
			failed = errors.Join(failed, err)
		}
		return nil, failed
	}
}

// checkDialAddress returns an error if an address is not allowed. It is the Control function of a net.Dialer,
// which calls it with the resolved address.
func checkDialAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse the address %q: %w", address, err)
	}
	if !isAllowed(to.Addr()) {
		return &net.AddrError{Err: ErrAddressNotAllowed.Error(), Addr: address}
	}
	return nil
}
