package allocation

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

func TestBands(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		r            Range
		size, static uint64
		first, last  string
	}{
		{"default of addresses", Addresses(netip.MustParsePrefix("10.0.0.0/24")), 254, 16, "10.0.0.1", "10.0.0.254"},
		{"large", Addresses(netip.MustParsePrefix("10.96.0.0/12")), 1<<20 - 2, 256, "10.96.0.1", "10.111.255.254"},
		{"256th of the static band", Addresses(netip.MustParsePrefix("10.0.0.0/20")), 4094, 256, "10.0.0.1", "10.0.15.254"},
		{"not masked", Addresses(netip.MustParsePrefix("10.0.0.77/27")), 30, 16, "10.0.0.65", "10.0.0.94"},
		{"without static band", Addresses(netip.MustParsePrefix("10.0.0.0/28")), 14, 0, "10.0.0.1", "10.0.0.14"},
		{"two addresses", Addresses(netip.MustParsePrefix("10.0.0.0/30")), 2, 0, "10.0.0.1", "10.0.0.2"},
		{"none", Addresses(netip.MustParsePrefix("10.0.0.0/32")), 0, 0, "", ""},
		{"IPv6", Addresses(netip.MustParsePrefix("fd00::/112")), 1<<16 - 1, 256, "fd00::1", "fd00::ffff"},
		{"IPv6 of 64 bits", Addresses(netip.MustParsePrefix("fd00::/64")), 1<<63 - 2, 256, "fd00::1", "fd00::7fff:ffff:ffff:fffe"},
		{"default of ports", Ports(utilnet.PortRange{Base: 30000, Size: 2768}), 2768, 86, "30000", "32767"},
		{"few ports", Ports(utilnet.PortRange{Base: 30000, Size: 16}), 16, 0, "30000", "30015"},
		{"many ports", Ports(utilnet.PortRange{Base: 1, Size: 65535}), 65535, 128, "1", "65535"},
		{"no ports", Ports(utilnet.PortRange{}), 0, 0, "", ""},
	}
	for _, tt := range tests {
		if tt.r.size != tt.size || tt.r.static != tt.static {
			t.Errorf("%s: %d numbers, %d of them static; want %d and %d", tt.name, tt.r.size, tt.r.static, tt.size, tt.static)
		}
		if tt.size > 0 && (tt.r.name(0) != tt.first || tt.r.name(tt.size-1) != tt.last) {
			t.Errorf("%s: from %s to %s, want %s to %s", tt.name, tt.r.name(0), tt.r.name(tt.size-1), tt.first, tt.last)
		}
	}
}

// TestCandidates checks that each number is tried once, that the static band is last, and that the
// first number is random.
func TestCandidates(t *testing.T) {
	t.Parallel()
	first := map[string]bool{}
	r := Addresses(netip.MustParsePrefix("10.0.0.0/26"))
	for range 100 {
		all := slices.Collect(r.candidates())
		if distinct := slices.Compact(slices.Sorted(slices.Values(all))); len(all) != 62 || len(distinct) != 62 {
			t.Fatalf("%d candidates, %d of them distinct; want 62", len(all), len(distinct))
		}
		for _, name := range all[len(all)-16:] {
			if address := netip.MustParseAddr(name); !address.Less(netip.MustParseAddr("10.0.0.17")) {
				t.Fatalf("%s is among the last 16 candidates, but not in the static band", name)
			}
		}
		first[all[0]] = true
	}
	if len(first) < 10 {
		t.Errorf("in 100 iterations, the first candidate was one of only %v", slices.Sorted(maps.Keys(first)))
	}
	for name := range Addresses(netip.MustParsePrefix("fd00::/64")).candidates() {
		if !strings.HasPrefix(name, "fd00::") {
			t.Errorf("%s is not in the range", name)
		}
		break
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cidr, address string
		want          bool
	}{
		{"10.0.0.0/29", "10.0.0.0", false},
		{"10.0.0.0/29", "10.0.0.1", true},
		{"10.0.0.0/29", "10.0.0.6", true},
		{"10.0.0.0/29", "10.0.0.7", false},
		{"10.0.0.0/29", "10.0.0.8", false},
		{"255.255.255.248/29", "255.255.255.254", true},
		{"255.255.255.248/29", "255.255.255.255", false},
		{"fd00::/120", "fd00::", false},
		{"fd00::/120", "fd00::ff", true},
		{"fd00::/120", "10.0.0.1", false},
	} {
		if got := Contains(netip.MustParsePrefix(tt.cidr), netip.MustParseAddr(tt.address)); got != tt.want {
			t.Errorf("%s in %s: %t, want %t", tt.address, tt.cidr, got, tt.want)
		}
	}
}
