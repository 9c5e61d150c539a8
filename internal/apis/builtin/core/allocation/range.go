package allocation

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"strconv"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Range is a range of numbers that can be allocated, either the addresses of a CIDR or ports. The first
// numbers form the static band. They are allocated last, so that clients can choose a free number from this
// band.
type Range struct {
	// size is the number of elements, and static the number of elements in the static band.
	size, static uint64
	// name returns the lock name of the nth element.
	name func(n uint64) string
}

// Addresses returns the range of a CIDR. The range contains all addresses except the first one and, for IPv4,
// the last one. KEP-3070 specifies the static band.
func Addresses(cidr netip.Prefix) Range {
	cidr = cidr.Masked()
	first := cidr.Addr().Next()
	return Range{
		size: hosts(cidr), static: staticBand(total(cidr), 16, 256),
		name: func(n uint64) string { return add(first, n).String() },
	}
}

// Ports returns the range for a port range. KEP-3668 specifies the static band.
func Ports(ports utilnet.PortRange) Range {
	size := uint64(max(ports.Size, 0))
	return Range{
		size: size, static: staticBand(size, 32, 128),
		name: func(n uint64) string { return strconv.FormatUint(uint64(ports.Base)+n, 10) },
	}
}

// staticBand returns the size of the static band, which is size/part, but at least 16 and at most most. A
// range of up to 16 elements has no static band.
func staticBand(size, part, most uint64) uint64 {
	const least = 16
	if size <= least {
		return 0
	}
	return min(max(size/part, least), most)
}

// total returns the number of addresses in a CIDR, capped at the maximum int64.
func total(cidr netip.Prefix) uint64 {
	host := cidr.Addr().BitLen() - cidr.Bits()
	if host >= 63 {
		return math.MaxInt64
	}
	return 1 << host
}

// hosts returns the number of addresses of a CIDR that can be allocated.
func hosts(cidr netip.Prefix) uint64 {
	unusable := uint64(1)
	if cidr.Addr().Is4() {
		unusable = 2
	}
	return max(total(cidr), unusable) - unusable
}

// Contains reports whether an address is in a CIDR and can be allocated.
func Contains(cidr netip.Prefix, address netip.Addr) bool {
	if !cidr.Contains(address) || address == cidr.Masked().Addr() {
		return false
	}
	return address.Is6() || cidr.Contains(address.Next())
}

// add returns the nth address after address.
func add(address netip.Addr, n uint64) netip.Addr {
	wide := address.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(wide[8:]), n, 0)
	binary.BigEndian.PutUint64(wide[8:], low)
	binary.BigEndian.PutUint64(wide[:8], binary.BigEndian.Uint64(wide[:8])+carry)
	if address.Is4() {
		return netip.AddrFrom16(wide).Unmap()
	}
	return netip.AddrFrom16(wide)
}

// random returns the name of a random element of the dynamic band, or false if the band is empty. Because
// allocated elements are spread over the band, a random element is usually free.
func (r Range) random() (string, bool) {
	if r.size <= r.static {
		return "", false
	}
	return r.name(r.static + rand.Uint64N(r.size-r.static)), true
}

// candidates iterates over the names of all elements. It starts with the dynamic band and ends with the static
// band. Within a band, it starts at a random element.
func (r Range) candidates() iter.Seq[string] {
	return func(yield func(string) bool) {
		static := min(r.static, r.size)
		_ = r.band(static, r.size-static, yield) && r.band(0, static, yield)
	}
}

// band yields the names of the size elements that start at first. It begins with a random element and wraps
// around. It returns false if yield returns false.
func (r Range) band(first, size uint64, yield func(string) bool) bool {
	if size == 0 {
		return true
	}
	start := rand.Uint64N(size)
	for n := range size {
		at := start + n // no overflow: sizes are below 1<<63
		if at >= size {
			at -= size
		}
		if !yield(r.name(first + at)) {
			return false
		}
	}
	return true
}
