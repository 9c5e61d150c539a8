package host

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// withdrawTimeout bounds the removal of this server's endpoint; its lease expires
// soon in any case.
const withdrawTimeout = 5 * time.Second

// withdraw removes this server's endpoint before it stops.
func (h *Host) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	if err := h.served.Withdraw(ctx); err != nil {
		h.logger.Warn("other servers need some seconds to notice that this server has stopped", "err", err)
	}
}

// port is the port that the server listens on.
func (h *Host) port() int {
	_, port, err := net.SplitHostPort(strings.TrimPrefix(h.url(), "https://"))
	if err != nil {
		return h.config.SecurePort
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return h.config.SecurePort
	}
	return number
}

// endpoint returns the address for the endpoints of default/kubernetes, selected as in
// kube-apiserver: the advertised address, the bound address, or an address of this machine, in the
// IP family of the service. It is zero if other machines cannot use any address.
func (c Config) endpoint() netip.Addr {
	wantIPv4 := c.ServiceClusterIPRange[0].Addr().Is4()
	usable := func(addr netip.Addr) bool { return addr.IsGlobalUnicast() && addr.Unmap().Is4() == wantIPv4 }
	for _, addr := range []netip.Addr{c.AdvertiseAddress, c.BindAddress} {
		if usable(addr) {
			return addr.Unmap()
		}
	}
	for _, text := range ownAddresses() {
		if addr, err := netip.ParseAddr(text); err == nil && usable(addr) {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}
