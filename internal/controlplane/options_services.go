package controlplane

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/flags"
)

// Defaults of ServiceOptions, as in kube-apiserver.
const (
	DefaultServiceClusterIPRange = "10.0.0.0/24"
	DefaultServiceNodePortRange  = "30000-32767"
)

// Values of ServiceOptions.EndpointReconciler.
const (
	// EndpointsByLease publishes the addresses of all servers that share the store.
	EndpointsByLease = "lease"
	// EndpointsByMasterCount is the deprecated name of EndpointsByLease.
	EndpointsByMasterCount = "master-count"
	// EndpointsByOthers publishes no endpoints, and does not modify the endpoints that other programs
	// publish.
	EndpointsByOthers = "none"
)

// ServiceOptions configure the addresses of services.
type ServiceOptions struct {
	// ClusterIPRange contains one range, or one range for each IP family; empty selects
	// 10.0.0.0/24.
	ClusterIPRange []netip.Prefix
	// NodePortRange is the range of node ports; empty selects 30000-32767.
	NodePortRange utilnet.PortRange
	// KubernetesNodePort is the node port of the service default/kubernetes; 0 means that the service
	// has the type ClusterIP.
	KubernetesNodePort int
	// EndpointReconciler selects the publisher of the endpoints of the service default/kubernetes:
	// EndpointsByLease (or ""), EndpointsByMasterCount or EndpointsByOthers.
	EndpointReconciler string
}

// AddFlags defines the flags of the options.
func (o *ServiceOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.KubernetesNodePort, "kubernetes-service-node-port", 0, "node port of the service default/kubernetes, which then has the type NodePort; 0 means ClusterIP")
	fs.StringVar(&o.EndpointReconciler, "endpoint-reconciler-type", EndpointsByLease, "how the endpoints of the service default/kubernetes are published: lease (addresses of all servers with the same etcd), master-count (deprecated, the same as lease) or none (by another program)")
	flags.PrefixesVar(fs, &o.ClusterIPRange, "service-cluster-ip-range", "one or two CIDRs for service addresses (default "+DefaultServiceClusterIPRange+")")
	fs.Var(&o.NodePortRange, "service-node-port-range", "range of node ports for services, such as 30000-32767 (default "+DefaultServiceNodePortRange+")")
}

func (o *ServiceOptions) setDefaults() {
	setDefault(&o.EndpointReconciler, EndpointsByLease)
	if len(o.ClusterIPRange) == 0 {
		o.ClusterIPRange = []netip.Prefix{netip.MustParsePrefix(DefaultServiceClusterIPRange)}
	}
	if o.NodePortRange.Size == 0 {
		o.NodePortRange = *utilnet.ParsePortRangeOrDie(DefaultServiceNodePortRange)
	}
}

func (o *ServiceOptions) check() error {
	var errs []error
	switch o.EndpointReconciler {
	case EndpointsByLease, EndpointsByMasterCount, EndpointsByOthers:
	default:
		errs = append(errs, fmt.Errorf("--endpoint-reconciler-type=%s is not supported; it must be %s or %s", o.EndpointReconciler, EndpointsByLease, EndpointsByOthers))
	}
	if port := o.KubernetesNodePort; port != 0 && !o.NodePortRange.Contains(port) {
		errs = append(errs, fmt.Errorf("--kubernetes-service-node-port is %d; it must be 0 or within --service-node-port-range (%s)", port, &o.NodePortRange))
	}
	return errors.Join(append(errs, o.checkRanges())...)
}

func (o *ServiceOptions) checkRanges() error {
	ranges := o.ClusterIPRange
	if len(ranges) > 2 {
		return fmt.Errorf("--service-cluster-ip-range contains %d ranges; at most two are possible", len(ranges))
	}
	for _, r := range ranges {
		if r.Addr().BitLen()-r.Bits() < 3 {
			return fmt.Errorf("--service-cluster-ip-range: %s is too small; at least 8 addresses are required", r)
		}
	}
	if o.NodePortRange.Base < 1 {
		return fmt.Errorf("--service-node-port-range: %s does not begin with a port", o.NodePortRange)
	}
	if len(ranges) == 2 && ranges[0].Addr().Is4() == ranges[1].Addr().Is4() {
		return errors.New("--service-cluster-ip-range: of two ranges, one must be IPv4 and the other IPv6")
	}
	return nil
}

// FirstIP returns the address of the service default/kubernetes. The options must have defaults.
func (o *ServiceOptions) FirstIP() netip.Addr { return o.ClusterIPRange[0].Masked().Addr().Next() }
