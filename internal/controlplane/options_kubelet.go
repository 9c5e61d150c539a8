package controlplane

import (
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/egress/kubelet"
)

// KubeletOptions configure connections to kubelets, except for certificates. Zero fields select the
// defaults of package kubelet.
type KubeletOptions struct {
	// PreferredAddressTypes are types of node addresses, in the order of preference.
	PreferredAddressTypes []string
	// Port is the port of kubelets on nodes that do not report it.
	Port int
	// Timeout is the timeout for connecting to a kubelet.
	Timeout time.Duration
}

// AddFlags defines the flags of the options.
func (o *KubeletOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.PreferredAddressTypes, "kubelet-preferred-address-types", kubelet.DefaultAddressTypes(), "types of node addresses, in order of preference")
	fs.IntVar(&o.Port, "kubelet-port", kubelet.DefaultPort, "port of kubelets on nodes that do not report it")
	fs.DurationVar(&o.Timeout, "kubelet-timeout", kubelet.DefaultTimeout, "timeout for connecting to a kubelet")
}
