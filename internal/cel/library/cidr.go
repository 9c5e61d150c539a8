package library

import (
	"fmt"
	"net/netip"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// CIDR returns the library of IP address blocks. The address of a block may have bits set after the prefix.
// IPv4-mapped IPv6 addresses are rejected.
//
//	cidr(<string>) <CIDR>                           an error for an invalid block
//	isCIDR(<string>) <bool>
//	string(<CIDR>) <string>
//	<CIDR>.containsIP(<IP|string>) <bool>
//	<CIDR>.containsCIDR(<CIDR|string>) <bool>
//	<CIDR>.ip() <IP>                                the address, including the bits after the prefix
//	<CIDR>.masked() <CIDR>                          without the bits after the prefix
//	<CIDR>.prefixLength() <int>
func CIDR() cel.EnvOption {
	cidrs, ips := cidrKind(), ipKind()
	read := func(s string) ref.Val {
		p, err := parseCIDR(s)
		if err != nil {
			// The message contains this prefix twice, as in kube-apiserver.
			return types.NewErr("network address parse error during conversion from string: %v", err)
		}
		return cidrs.wrap(p)
	}
	return cel.Lib(library{name: "kubernetes.net.cidr", options: []cel.EnvOption{
		cel.Types(cidrs.typ),
		cel.Function("cidr", cel.Overload("string_to_cidr", signature(cel.StringType), cidrs.typ, unary(read))),
		cel.Function("isCIDR", cel.Overload("is_cidr", signature(cel.StringType), cel.BoolType, canParse(parseCIDR))),
		cel.Function("string", cel.Overload("cidr_to_string", signature(cidrs.typ), cel.StringType,
			unary(func(p netip.Prefix) ref.Val { return types.String(p.String()) }))),
		cel.Function("containsIP",
			cel.MemberOverload(containsIPString, signature(cidrs.typ, cel.StringType), cel.BoolType, binary(containsParsedIP)),
			cel.MemberOverload("cidr_contains_ip_ip", signature(cidrs.typ, ips.typ), cel.BoolType,
				binary(func(p netip.Prefix, a netip.Addr) ref.Val { return types.Bool(p.Contains(a)) }))),
		cel.Function("containsCIDR",
			cel.MemberOverload(containsCIDRString, signature(cidrs.typ, cel.StringType), cel.BoolType, binary(func(p netip.Prefix, s string) ref.Val {
				inner := read(s)
				if types.IsError(inner) {
					return inner
				}
				return containsCIDR(p, inner.Value().(netip.Prefix))
			})),
			cel.MemberOverload("cidr_contains_cidr", signature(cidrs.typ, cidrs.typ), cel.BoolType, binary(containsCIDR))),
		cel.Function("ip", cel.MemberOverload(ipOfCIDR, signature(cidrs.typ), ips.typ,
			unary(func(p netip.Prefix) ref.Val { return ips.wrap(p.Addr()) }))),
		cel.Function("prefixLength", cel.MemberOverload("cidr_prefix_length", signature(cidrs.typ), cel.IntType,
			unary(func(p netip.Prefix) ref.Val { return types.Int(p.Bits()) }))),
		cel.Function("masked", cel.MemberOverload("cidr_masked", signature(cidrs.typ), cidrs.typ,
			unary(func(p netip.Prefix) ref.Val { return cidrs.wrap(p.Masked()) }))),
	}})
}

func cidrKind() *kind[netip.Prefix] {
	return &kind[netip.Prefix]{
		name:  "CIDR",
		typ:   cel.OpaqueType(cidrTypeName),
		equal: func(a, b netip.Prefix) bool { return a == b },
		text:  netip.Prefix.String,
		size:  func(p netip.Prefix) int { return (p.Bits() + 7) / 8 },
	}
}

func parseCIDR(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("network address parse error during conversion from string: %w", err)
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("IPv4-mapped IPv6 address %q is not allowed", s)
	}
	return p, nil
}

func containsParsedIP(p netip.Prefix, s string) ref.Val {
	a, err := parseIP(s)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(p.Contains(a))
}

// containsCIDR reports whether the outer block contains all addresses of the inner block.
func containsCIDR(outer, inner netip.Prefix) ref.Val {
	return types.Bool(outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr()))
}

// The overloads whose costs differ from those of the other overloads of the same function.
const (
	ipOfCIDR           = "cidr_ip"
	containsIPString   = "cidr_contains_ip_string"
	containsCIDRString = "cidr_contains_cidr_string"
)

// containsCostModel returns the cost model for comparing the bytes of two addresses. If masked is true, it adds
// the cost of masking an address and of comparing the prefix lengths. For the overload ofString, it adds the
// cost of parsing the argument.
func containsCostModel(ofString string, masked bool) costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil || len(c.args) < 1 {
				return nil
			}
			address := checker.SizeEstimate{Min: 4, Max: 16} // bytes, of both families
			cost := address.Add(address).MultiplyByCostFactor(traversal)
			if masked {
				cost = cost.Add(address.MultiplyByCostFactor(traversal)).Add(checker.FixedCostEstimate(1))
			}
			if c.overload == ofString {
				cost = cost.Add(c.size(c.args[0]).MultiplyByCostFactor(traversal))
			}
			return callEstimate(cost)
		},
		actual: func(c executedCall) *uint64 {
			if len(c.args) < 2 {
				return nil
			}
			prefix := size(c.args[0])
			cost := readCost(prefix, 2)
			if masked {
				cost += readCost(prefix, 1) + 1
			}
			if c.overload == ofString {
				cost += readCost(size(c.args[1]), 1)
			}
			return actualCost(cost)
		},
	}
}
