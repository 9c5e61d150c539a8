package library

import (
	"fmt"
	"net/netip"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// IP returns the library of IP addresses. It rejects IPv4-mapped IPv6 addresses, zones and leading zeros.
//
//	ip(<string>) <IP>                   an error for an invalid address
//	isIP(<string>) <bool>
//	ip.isCanonical(<string>) <bool>     whether the string is the canonical form
//	string(<IP>) <string>               the canonical form
//	<IP>.family() <int>                 4 or 6
//	<IP>.isUnspecified() <bool>         also isLoopback, isLinkLocalMulticast, isLinkLocalUnicast, isGlobalUnicast
func IP() cel.EnvOption {
	ips := ipKind()
	is := func(name, id string, f func(netip.Addr) bool) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(id, signature(ips.typ), cel.BoolType,
			unary(func(a netip.Addr) ref.Val { return types.Bool(f(a)) })))
	}
	return cel.Lib(library{name: "kubernetes.net.ip", options: []cel.EnvOption{
		cel.Types(ips.typ),
		cel.Function("ip", cel.Overload("string_to_ip", signature(cel.StringType), ips.typ, unary(func(s string) ref.Val {
			a, err := parseIP(s)
			if err != nil {
				return types.WrapErr(err)
			}
			return ips.wrap(a)
		}))),
		cel.Function("isIP", cel.Overload("is_ip", signature(cel.StringType), cel.BoolType, canParse(parseIP))),
		cel.Function("ip.isCanonical", cel.Overload("ip_is_canonical", signature(cel.StringType), cel.BoolType, unary(isCanonical))),
		cel.Function("string", cel.Overload("ip_to_string", signature(ips.typ), cel.StringType,
			unary(func(a netip.Addr) ref.Val { return types.String(a.String()) }))),
		cel.Function("family", cel.MemberOverload("ip_family", signature(ips.typ), cel.IntType, unary(family))),
		is("isUnspecified", "ip_is_unspecified", netip.Addr.IsUnspecified),
		is("isLoopback", "ip_is_loopback", netip.Addr.IsLoopback),
		is("isLinkLocalMulticast", "ip_is_link_local_multicast", netip.Addr.IsLinkLocalMulticast),
		is("isLinkLocalUnicast", "ip_is_link_local_unicast", netip.Addr.IsLinkLocalUnicast),
		is("isGlobalUnicast", "ip_is_global_unicast", netip.Addr.IsGlobalUnicast),
	}})
}

func ipKind() *kind[netip.Addr] {
	return &kind[netip.Addr]{
		name:  "IP",
		typ:   cel.OpaqueType(ipTypeName),
		equal: func(a, b netip.Addr) bool { return a == b },
		text:  netip.Addr.String,
		size:  func(a netip.Addr) int { return a.BitLen() / 8 },
	}
}

func parseIP(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("IP Address %q parse error during conversion from string: %w", s, err)
	case a.Zone() != "":
		return netip.Addr{}, fmt.Errorf("IP address %q with zone value is not allowed", s)
	case a.Is4In6():
		return netip.Addr{}, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", s)
	}
	return a, nil
}

func isCanonical(s string) ref.Val {
	a, err := parseIP(s)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(a.String() == s)
}

func family(a netip.Addr) ref.Val {
	if a.Is4() {
		return types.Int(4)
	}
	return types.Int(6)
}

// ipCostModel returns the cost model for parsing an address, or for reading the address of a block.
func ipCostModel() costModel {
	read, part := readCostModel(1), nominalCostModel()
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if len(c.args) == 0 {
				return part.estimate(c)
			}
			return read.estimate(c)
		},
		actual: func(c executedCall) *uint64 {
			if c.overload == ipOfCIDR {
				return part.actual(c)
			}
			return read.actual(c)
		},
	}
}
