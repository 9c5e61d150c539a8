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

// metadataV6 is where a cloud keeps credentials outside of the link.
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

// CheckHost returns why a node's address, or an address of its name, may not be that of
// a node.
func (c *Client) CheckHost(ctx context.Context, host string) error {
	if c.config.AnyAddress {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if !allowed(ip) {
			return ErrAddressNotAllowed
		}
		return nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return err
	}
	for _, ip := range found {
		if !allowed(ip) {
			return ErrAddressNotAllowed
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("no addresses for hostname")
	}
	return nil
}

// dial returns how kubelets are connected to.
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

// dialAllowed returns how pods, services and other ports of nodes are connected to. What
// address a name has that Config.Dial resolves elsewhere is not known here.
func (c *Client) dialAllowed() dialFunc {
	if c.config.Dial == nil {
		return (&net.Dialer{Timeout: c.config.Timeout, KeepAlive: keepAlive, Control: allowedAddress}).DialContext
	}
	dial := c.dial()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, err := netip.ParseAddrPort(address); err == nil {
			if err := allowedAddress(network, address, nil); err != nil {
				return nil, err
			}
		}
		return dial(ctx, network, address)
	}
}

// dialFunc is net.Dialer.DialContext.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// allowedAddress is the Control of a dialer: it sees the address that a name has
// been resolved to, so that no name leads where its address does not.
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
