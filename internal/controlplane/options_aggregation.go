package controlplane

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/flags"
)

// AggregationOptions configure requests to aggregated servers and webhooks.
type AggregationOptions struct {
	// RouteToEndpoints makes the server connect to an endpoint of a service instead of the cluster
	// IP.
	RouteToEndpoints bool
	// PassRedirects forwards redirects of aggregated servers to clients.
	PassRedirects bool
}

// AddFlags defines the flags of the options.
func (o *AggregationOptions) AddFlags(fs *pflag.FlagSet) {
	flags.EnabledVar(fs, &o.PassRedirects, "aggregator-reject-forwarding-redirect", "reject redirects of aggregated servers")
	fs.BoolVar(&o.RouteToEndpoints, "enable-aggregator-routing", false, "connect to the endpoints of aggregated servers' and webhooks' services instead of their cluster IPs")
}

// PeerOptions configure the address at which other servers with the same store reach this server to
// forward requests to it (KEP-4020).
type PeerOptions struct {
	// AdvertiseIP and AdvertisePort must be set together. If they are "", Network.Endpoint and
	// Network.Port are used.
	AdvertiseIP, AdvertisePort string
}

// AddFlags defines the flags of the options.
func (o *PeerOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.AdvertiseIP, "peer-advertise-ip", "", "address under which other servers reach this server to forward requests (default: --advertise-address)")
	fs.StringVar(&o.AdvertisePort, "peer-advertise-port", "", "port for forwarded requests (default: --secure-port)")
}

func (o *PeerOptions) check(gates feature.Gates) error {
	var errs []error
	if !gates.Enabled(feature.UnknownVersionInteroperabilityProxy) {
		for _, given := range []struct{ flag, value string }{{"peer-advertise-ip", o.AdvertiseIP}, {"peer-advertise-port", o.AdvertisePort}} {
			if given.value != "" {
				errs = append(errs, fmt.Errorf("--%s requires UnknownVersionInteroperabilityProxy feature to be turned on", given.flag))
			}
		}
	}
	if _, err := netip.ParseAddr(o.AdvertiseIP); o.AdvertiseIP != "" && err != nil {
		errs = append(errs, fmt.Errorf("--peer-advertise-ip: %w", err))
	}
	if port, err := strconv.Atoi(o.AdvertisePort); o.AdvertisePort != "" && (err != nil || port < 1 || port > 65535) {
		errs = append(errs, fmt.Errorf("--peer-advertise-port is %q; it must be between 1 and 65535", o.AdvertisePort))
	}
	if (o.AdvertiseIP == "") != (o.AdvertisePort == "") {
		errs = append(errs, errors.New("--peer-advertise-ip and --peer-advertise-port must be given together"))
	}
	return errors.Join(errs...)
}
