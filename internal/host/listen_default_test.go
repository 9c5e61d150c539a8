package host

import (
	"net/netip"
	"testing"
)

// TestDefaultBindAddress checks that the default listen address is a loopback address, unless the server
// advertises an address to other machines.
func TestDefaultBindAddress(t *testing.T) {
	t.Parallel()
	for advertised, want := range map[string]string{
		"": "127.0.0.1", "127.0.0.1": "127.0.0.1", "127.1.2.3": "127.0.0.1", "::1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "127.0.0.1",
		"10.99.0.1": "0.0.0.0", "192.0.2.7": "0.0.0.0", "::ffff:192.0.2.7": "0.0.0.0", "2001:db8::1": "::",
	} {
		for _, given := range []string{"", "127.0.0.5", "0.0.0.0"} {
			config := Config{Storage: StorageConfig{DataDir: t.TempDir()}}
			if advertised != "" {
				config.Listen.AdvertiseAddress = netip.MustParseAddr(advertised)
			}
			bind := want
			if given != "" {
				config.Listen.BindAddress, bind = netip.MustParseAddr(given), given
			}
			filled, err := config.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			if got := filled.Listen.BindAddress.String(); got != bind {
				t.Errorf("--advertise-address=%s --bind-address=%s: listens on %s; want %s", advertised, given, got, bind)
			}
			if byDefault := given == "" && want != "127.0.0.1"; filled.Listen.bindAll != byDefault {
				t.Errorf("--advertise-address=%s --bind-address=%s: logs that it listens on all addresses: %t; want %t", advertised, given, filled.Listen.bindAll, byDefault)
			}
		}
	}
}
