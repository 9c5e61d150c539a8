package core

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateEndpoints(f validation.Field, endpoints, old *corev1.Endpoints) {
	f = f.Child("subsets")
	var stored storedIPs
	if old != nil {
		stored.subsets = old.Subsets
	}
	for i := range endpoints.Subsets {
		subset, at := &endpoints.Subsets[i], f.Index(i)
		if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
			at.Required("must specify `addresses` or `notReadyAddresses`")
		}
		validateEndpointAddresses(at.Child("addresses"), subset.Addresses, &stored)
		validateEndpointAddresses(at.Child("notReadyAddresses"), subset.NotReadyAddresses, &stored)
		for j := range subset.Ports {
			validateEndpointPort(at.Child("ports").Index(j), &subset.Ports[j], len(subset.Ports) > 1)
		}
	}
}

func validateEndpointAddresses(f validation.Field, addresses []corev1.EndpointAddress, stored *storedIPs) {
	for i := range addresses {
		address, at := &addresses[i], f.Index(i)
		if !stored.has(address.IP) {
			at.Child("ip").IP(address.IP)
		}
		at.Child("ip").NonSpecialIP(address.IP)
		if address.Hostname != "" {
			at.Child("hostname").DNSLabel(address.Hostname)
		}
		if address.NodeName != nil {
			at.Child("nodeName").DNSSubdomain(*address.NodeName)
		}
	}
}

func validateEndpointPort(f validation.Field, port *corev1.EndpointPort, named bool) {
	validatePort(f, port.Name, port.Port, port.Protocol, named)
	if port.AppProtocol != nil {
		f.Child("appProtocol").QualifiedName(*port.AppProtocol)
	}
}

// storedIPs finds the addresses of a stored object whose formats are invalid for new addresses. It searches
// the object only when necessary, because few objects have such addresses.
type storedIPs struct {
	subsets []corev1.EndpointSubset
	odd     map[string]bool // nil before the first search
}

func (s *storedIPs) has(ip string) bool {
	if len(s.subsets) == 0 || !isOdd(ip) {
		return false
	}
	if s.odd == nil {
		s.odd = make(map[string]bool)
		for i := range s.subsets {
			s.add(s.subsets[i].Addresses)
			s.add(s.subsets[i].NotReadyAddresses)
		}
	}
	return s.odd[ip]
}

func (s *storedIPs) add(addresses []corev1.EndpointAddress) {
	for i := range addresses {
		if ip := addresses[i].IP; isOdd(ip) {
			s.odd[ip] = true
		}
	}
}

// isOdd reports whether a text might be an IP address in a format that different programs parse differently.
func isOdd(ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err != nil || addr.Is4In6()
}
