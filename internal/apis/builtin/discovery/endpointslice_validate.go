package discovery

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Limits on the lengths of the lists in a slice.
const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
	maxHints     = 8
	// maxTopology is the maximum number of keys in a topology. Clients no longer write topologies.
	maxTopology = 16
)

func validateSlice(f validation.Field, slice, old *discoveryv1.EndpointSlice) {
	at := f.Child("addressType")
	if slice.AddressType == "" {
		at.Required("")
	} else {
		validation.OneOf(at, slice.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	}
	rules := endpointRules{addressType: slice.AddressType}
	if old != nil {
		rules.old = old.Endpoints
	}
	rules.validateEndpoints(f.Child("endpoints"), slice.Endpoints)
	validatePorts(f.Child("ports"), slice.Ports)
	if old != nil {
		validation.ImmutableValue(at, slice.AddressType, old.AddressType)
	}
}

func validatePorts(f validation.Field, ports []discoveryv1.EndpointPort) {
	if len(ports) > maxPorts {
		f.TooMany(len(ports), maxPorts)
		return
	}
	names := validation.NewDuplicates[string](len(ports))
	for i := range ports {
		port, at := &ports[i], f.Index(i)
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			at.Child("name").DNSLabel(name)
		}
		if names.IsDuplicate(name) {
			at.Child("name").Duplicate(name)
		}
		if port.Protocol == nil {
			at.Child("protocol").Required("")
		} else {
			validation.OneOf(at.Child("protocol"), *port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		}
		if port.AppProtocol != nil {
			at.Child("appProtocol").QualifiedName(*port.AppProtocol)
		}
	}
}

// endpointRules validates the endpoints of one slice.
type endpointRules struct {
	addressType discoveryv1.AddressType
	old         []discoveryv1.Endpoint
	// addresses is the set of addresses in the old slice, which remain valid in any endpoint. It is nil until
	// had is called.
	addresses map[string]struct{}
}

func (r *endpointRules) validateEndpoints(f validation.Field, endpoints []discoveryv1.Endpoint) {
	if len(endpoints) > maxEndpoints {
		f.TooMany(len(endpoints), maxEndpoints)
		return
	}
	for i := range endpoints {
		endpoint, at := &endpoints[i], f.Index(i)
		r.validateAddresses(at.Child("addresses"), endpoint.Addresses)
		if endpoint.NodeName != nil {
			at.Child("nodeName").DNSSubdomain(*endpoint.NodeName)
		}
		if topology := endpoint.DeprecatedTopology; len(topology) > 0 {
			if len(topology) > maxTopology {
				at.Child("deprecatedTopology").TooMany(len(topology), maxTopology)
			}
			at.Child("deprecatedTopology").Labels(topology)
		}
		if endpoint.Hostname != nil {
			at.Child("hostname").DNSLabel(*endpoint.Hostname)
		}
		if endpoint.Hints != nil {
			validateHints(at.Child("hints"), endpoint.Hints)
		}
	}
}

func (r *endpointRules) validateAddresses(f validation.Field, addresses []string) {
	if len(addresses) == 0 {
		f.Required("must contain at least 1 address")
	} else if len(addresses) > maxAddresses {
		f.TooMany(len(addresses), maxAddresses)
	}
	for i, address := range addresses {
		switch r.addressType {
		case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
			r.validateIP(f, i, address)
		case discoveryv1.AddressTypeFQDN:
			if len(apivalidation.IsFullyQualifiedDomainName(nil, address)) > 0 {
				f.Index(i).Add(apivalidation.IsFullyQualifiedDomainName(f.Index(i).Path(), address)...)
			}
		}
	}
}

// validateIP validates the address with index i. f is the path of the address list. As in kube-apiserver, an
// address of the wrong family is reported for the list.
func (r *endpointRules) validateIP(f validation.Field, i int, address string) {
	at, before := f.Index(i), f.ErrorCount()
	ip, err := netip.ParseAddr(address)
	plain := err == nil && ip.Zone() == "" && !ip.Is4In6()
	if !plain && !r.had(address) {
		at.IP(address)
		if f.ErrorCount() > before {
			return
		}
	}
	isIPv4 := err != nil || ip.Unmap().Is4() // netip rejects a valid address only if it is IPv4 with leading zeros
	switch {
	case isIPv4 && r.addressType == discoveryv1.AddressTypeIPv6:
		f.Invalid(address, "must be an IPv6 address")
	case !isIPv4 && r.addressType == discoveryv1.AddressTypeIPv4:
		f.Invalid(address, "must be an IPv4 address")
	}
	at.NonSpecialIP(address)
}

// had reports whether the old slice contains an address.
func (r *endpointRules) had(address string) bool {
	if r.addresses == nil {
		r.addresses = make(map[string]struct{})
		for i := range r.old {
			for _, old := range r.old[i].Addresses {
				r.addresses[old] = struct{}{}
			}
		}
	}
	_, had := r.addresses[address]
	return had
}

func validateHints(f validation.Field, hints *discoveryv1.EndpointHints) {
	if len(hints.ForZones) > maxHints {
		f.Child("forZones").TooMany(len(hints.ForZones), maxHints)
		return
	}
	zones := validation.NewDuplicates[string](len(hints.ForZones))
	for i := range hints.ForZones {
		name, at := hints.ForZones[i].Name, f.Child("forZones").Index(i).Child("name")
		if zones.IsDuplicate(name) {
			at.Duplicate(name)
		}
		at.LabelValue(name)
	}
	if len(hints.ForNodes) > maxHints {
		f.Child("forNodes").TooMany(len(hints.ForNodes), maxHints)
		return
	}
	nodes := validation.NewDuplicates[string](len(hints.ForNodes))
	for i := range hints.ForNodes {
		name, at := hints.ForNodes[i].Name, f.Child("forNodes").Index(i).Child("name")
		if nodes.IsDuplicate(name) {
			at.Duplicate(name)
		}
		at.DNSSubdomain(name)
	}
}
