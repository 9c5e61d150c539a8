package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrAddressNotAllowed is the error of a request to an address that is not one of the
// cluster: of this machine, of its link, where clouds keep the credentials of machines,
// or of no machine at all.
var ErrAddressNotAllowed = errors.New("address not allowed")

// metadataV6 is a cloud metadata address outside of the link-local range.
func metadataV6() netip.Addr { return netip.MustParseAddr("fd00:ec2::254") }

// AllowedAddress reports whether an address may be that of a pod or node.
func (c *Client) AllowedAddress(address string) bool {
	if c.config.AnyAddress {
		return true
	}
	ip, err := netip.ParseAddr(address)
	return err == nil && allowed(ip)
}

func allowed(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsGlobalUnicast() && ip.WithZone("") != metadataV6()
}

// CheckHost returns an error if host, or an address that it resolves to, may not be that of a
// node. A name may have other addresses later: Transport and Direct check the
// address again when they connect.
func (c *Client) CheckHost(ctx context.Context, host string) error {
	if c.config.AnyAddress {
		return nil
	}
	_, err := resolveAllowed(ctx, host)
	return err
}

// resolveAllowed returns the addresses of a host, which is a DNS name or an IP address. It
// returns an error unless there is one and all are allowed.
func resolveAllowed(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i, ip := range found {
		if !allowed(ip) {
			return nil, ErrAddressNotAllowed
		}
		found[i] = ip.Unmap()
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no addresses for hostname")
	}
	return found, nil
}

// dialFunc is net.Dialer.DialContext.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial returns a function that connects to any address.
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
// address, so a later change of the DNS record (DNS rebinding) has no effect. Config.Dial, which
// may use a different resolver, therefore receives an IP address.
func (c *Client) dialAllowed() dialFunc {
	if c.config.Dial == nil {
		return (&net.Dialer{Timeout: c.config.Timeout, KeepAlive: keepAlive, Control: allowedAddress}).DialContext
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

// allowedAddress is the Control function of a net.Dialer, which calls it with the resolved
// address.
func allowedAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse the address %q: %w", address, err)
	}
	if !allowed(to.Addr()) {
		return &net.AddrError{Err: ErrAddressNotAllowed.Error(), Addr: address}
	}
	return nil
}
