package core

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

const (
	onlyForLoadBalancers    = "may only be used when `type` is 'LoadBalancer'"
	notForExternalNames     = "may not be set for ExternalName services"
	onlyWithHealthCheckPort = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
	// maxAffinitySeconds is the maximum timeout for session affinity by client IP. It is one day, in seconds.
	maxAffinitySeconds = 86400
)

// validateService validates a service. It does not check whether addresses and ports are available, because
// the allocator does.
func validateService(f validation.Field, service, old *corev1.Service) {
	spec, before := &service.Spec, &corev1.ServiceSpec{}
	if old != nil {
		before = &old.Spec
	}
	f = f.Child("spec")
	if spec.Type != corev1.ServiceTypeExternalName {
		count := f.ErrorCount()
		validateAddresses(f, spec, before)
		if f.ErrorCount() > count {
			return // kube-apiserver allocates addresses before it validates the remaining fields
		}
	}
	validateServiceType(f, spec)
	validateServicePorts(f.Child("ports"), spec, old == nil)
	f.Child("selector").Labels(spec.Selector)
	validateSessionAffinity(f, spec)
	validateExternalIPs(f.Child("externalIPs"), spec.ExternalIPs, before.ExternalIPs)
	validateTrafficPolicies(f, service)
	validateLoadBalancer(f, spec, before)
	if spec.Type == corev1.ServiceTypeExternalName {
		validateExternalName(f, spec)
	}
	if old != nil {
		validateServiceUpdate(f, service, old)
	}
}

// validateAddresses validates the addresses and IP families of a service. It is not called for services of
// type ExternalName.
func validateAddresses(f validation.Field, spec, before *corev1.ServiceSpec) {
	count := f.ErrorCount()
	valid := validateClusterIPs(f, spec, before)
	validateIPFamilies(f, spec)
	if valid {
		validateFamiliesOfIPs(f.Child("clusterIPs"), spec)
	}
	if f.ErrorCount() == count {
		validateSingleStack(f.Child("ipFamilyPolicy"), spec)
		validateReleasedFamily(f.Child("ipFamilyPolicy"), spec, before)
	}
}

func validateServiceType(f validation.Field, spec *corev1.ServiceSpec) {
	if spec.Type == "" {
		f.Child("type").Required("")
		return
	}
	validation.OneOf(f.Child("type"), spec.Type,
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	headless := spec.ClusterIP == corev1.ClusterIPNone
	if headless && (spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort) {
		f.Child("clusterIPs").Index(0).Invalid(spec.ClusterIP, fmt.Sprintf("may not be set to 'None' for %s services", spec.Type))
	}
}

// validateServicePorts requires that port names are unique, and that all ports are named if there is more than
// one. It also requires unique combinations of number and protocol, and of node port and protocol. In a new
// service, the allocator rejects a node port that ports with different numbers share.
func validateServicePorts(f validation.Field, spec *corev1.ServiceSpec, creation bool) {
	if len(spec.Ports) == 0 && spec.ClusterIP != corev1.ClusterIPNone && spec.Type != corev1.ServiceTypeExternalName {
		f.Required("")
	}
	type number struct {
		port     int32
		protocol corev1.Protocol
	}
	type nodePort struct {
		number
		of int32
	}
	names := validation.NewDuplicates[string](len(spec.Ports))
	ports, nodePorts := validation.NewDuplicates[number](len(spec.Ports)), validation.NewDuplicates[nodePort](len(spec.Ports))
	allocated := creation && hasNodePorts(spec)
	for i := range spec.Ports {
		port, at := &spec.Ports[i], f.Index(i)
		validateServicePort(at, port, len(spec.Ports) > 1)
		if spec.Type == corev1.ServiceTypeClusterIP && port.NodePort != 0 {
			at.Child("nodePort").Forbidden("may not be used when `type` is 'ClusterIP'")
		}
		if port.Name != "" && names.IsDuplicate(port.Name) {
			at.Child("name").Duplicate(port.Name)
		}
		if ports.IsDuplicate(number{port.Port, port.Protocol}) {
			at.Duplicate(corev1.ServicePort{Protocol: port.Protocol, Port: port.Port})
		}
		onNode := nodePort{number: number{port.NodePort, port.Protocol}}
		if allocated {
			onNode.of = port.Port
		}
		if port.NodePort != 0 && nodePorts.IsDuplicate(onNode) {
			at.Child("nodePort").Duplicate(port.NodePort)
		}
	}
}

// validatePort contains the rules that ports of services and of Endpoints have in common. named specifies that
// the port must have a name, because there are several ports.
func validatePort(f validation.Field, name string, port int32, protocol corev1.Protocol, named bool) {
	if name != "" {
		f.Child("name").DNSLabel(name)
	} else if named {
		f.Child("name").Required("")
	}
	f.Child("port").PortNumber(port)
	if protocol == "" {
		f.Child("protocol").Required("")
	} else {
		validation.OneOf(f.Child("protocol"), protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

func validateServicePort(f validation.Field, port *corev1.ServicePort, named bool) {
	validatePort(f, port.Name, port.Port, port.Protocol, named)
	f.Child("targetPort").PortNumberOrName(port.TargetPort)
	if port.AppProtocol != nil {
		f.Child("appProtocol").QualifiedName(*port.AppProtocol)
	}
}

func validateSessionAffinity(f validation.Field, spec *corev1.ServiceSpec) {
	if spec.SessionAffinity == "" {
		f.Child("sessionAffinity").Required("")
		return
	}
	validation.OneOf(f.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	config, at := spec.SessionAffinityConfig, f.Child("sessionAffinityConfig")
	switch {
	case spec.SessionAffinity == corev1.ServiceAffinityNone:
		if config != nil {
			at.Forbidden("must not be set when session affinity is None")
		}
	case spec.SessionAffinity != corev1.ServiceAffinityClientIP:
	case config == nil:
		at.Required("when session affinity type is ClientIP")
	case config.ClientIP == nil:
		at.Child("clientIP").Required("when session affinity type is ClientIP")
	case config.ClientIP.TimeoutSeconds == nil:
		at.Child("clientIP").Child("timeoutSeconds").Required("when session affinity type is ClientIP")
	default:
		if seconds := *config.ClientIP.TimeoutSeconds; seconds <= 0 || seconds > maxAffinitySeconds {
			at.Child("clientIP").Child("timeoutSeconds").Invalid(seconds, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds))
		}
	}
}

func validateExternalIPs(f validation.Field, ips, old []string) {
	for i, ip := range ips {
		at, before := f.Index(i), f.ErrorCount()
		at.IP(ip, old...)
		if f.ErrorCount() == before {
			at.NonSpecialIP(ip)
		}
	}
}

func validateTrafficPolicies(f validation.Field, service *corev1.Service) {
	spec := &service.Spec
	external := f.Child("externalTrafficPolicy")
	if !isExternal(service) {
		if spec.ExternalTrafficPolicy != "" {
			external.Invalid(spec.ExternalTrafficPolicy, "may only be set for externally-accessible services")
		}
	} else if spec.ExternalTrafficPolicy == "" {
		external.Required("")
	} else {
		validation.OneOf(external, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	}
	if policy := spec.InternalTrafficPolicy; policy != nil {
		validation.OneOf(f.Child("internalTrafficPolicy"), *policy, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	}
	if d := spec.TrafficDistribution; d != nil {
		validation.OneOf(f.Child("trafficDistribution"), *d, corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
	}
	port := f.Child("healthCheckNodePort")
	if !needsHealthCheckPort(service) {
		if spec.HealthCheckNodePort != 0 {
			port.Invalid(spec.HealthCheckNodePort, onlyWithHealthCheckPort)
		}
	} else if spec.HealthCheckNodePort != 0 { // 0 requests the allocation of a port
		port.PortNumber(spec.HealthCheckNodePort)
	}
}

func validateLoadBalancer(f validation.Field, spec, before *corev1.ServiceSpec) {
	if len(spec.LoadBalancerSourceRanges) > 0 {
		ranges := f.Child("LoadBalancerSourceRanges") // the capital letter is the same as in kube-apiserver
		if spec.Type != corev1.ServiceTypeLoadBalancer {
			ranges.Forbidden(onlyForLoadBalancers)
		}
		for i, cidr := range spec.LoadBalancerSourceRanges {
			ranges.Index(i).CIDR(cidr, before.LoadBalancerSourceRanges...)
		}
	}
	if spec.AllocateLoadBalancerNodePorts != nil && spec.Type != corev1.ServiceTypeLoadBalancer {
		f.Child("allocateLoadBalancerNodePorts").Forbidden(onlyForLoadBalancers)
	}
	if class := spec.LoadBalancerClass; class != nil {
		if spec.Type != corev1.ServiceTypeLoadBalancer {
			f.Child("loadBalancerClass").Forbidden(onlyForLoadBalancers)
		}
		if spec.Type == corev1.ServiceTypeLoadBalancer {
			f.Child("loadBalancerClass").QualifiedName(*class)
		}
	}
}

func validateExternalName(f validation.Field, spec *corev1.ServiceSpec) {
	for _, field := range []struct {
		name string
		set  bool
	}{{"clusterIPs", len(spec.ClusterIPs) > 0 || spec.ClusterIP != ""}, {"ipFamilies", len(spec.IPFamilies) > 0}, {"ipFamilyPolicy", spec.IPFamilyPolicy != nil}} {
		if field.set {
			f.Child(field.name).Forbidden(notForExternalNames)
		}
	}
	name := spec.ExternalName
	if name == "" {
		f.Child("externalName").Required("")
		return
	}
	if name[len(name)-1] == '.' { // a trailing dot makes the name absolute
		name = name[:len(name)-1]
	}
	f.Child("externalName").DNSSubdomain(name)
}

// validateClusterIPs requires that clusterIP equals the first element of clusterIPs, and that clusterIPs
// contains at most one address of each family. It reports whether each address is valid by itself.
func validateClusterIPs(f validation.Field, spec, before *corev1.ServiceSpec) (valid bool) {
	ips, at := spec.ClusterIPs, f.Child("clusterIPs")
	switch {
	case spec.ClusterIP == "":
		if len(ips) > 0 {
			at.Invalid(ips, "must be empty when `clusterIP` is not specified")
		}
	case len(ips) == 0:
		at.Required("")
	case ips[0] != spec.ClusterIP:
		at.Invalid(ips, "first value must match `clusterIP`")
	}
	if len(ips) > 1 && ips[0] == corev1.ClusterIPNone {
		at.Invalid(ips, "'None' must be the first and only value")
		return false
	}
	valid = true
	for i, ip := range ips {
		if i > 0 || ip != corev1.ClusterIPNone {
			count := f.ErrorCount()
			at.Index(i).IP(ip, before.ClusterIPs...)
			valid = valid && f.ErrorCount() == count
		}
	}
	if len(ips) > 2 {
		at.Invalid(ips, "may only hold up to 2 values")
	} else if valid && len(ips) == 2 && isIPv6(ips[0]) == isIPv6(ips[1]) {
		at.Invalid(ips, "may specify no more than one IP for each IP family")
	}
	return valid
}

func isIPv6(ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && addr.Is6()
}

func validateIPFamilies(f validation.Field, spec *corev1.ServiceSpec) {
	families := validation.NewDuplicates[corev1.IPFamily](len(spec.IPFamilies))
	for i, family := range spec.IPFamilies {
		at := f.Child("ipFamilies").Index(i)
		validation.OneOf(at, family, corev1.IPv4Protocol, corev1.IPv6Protocol)
		if families.IsDuplicate(family) {
			at.Duplicate(family)
		}
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		validation.OneOf(f.Child("ipFamilyPolicy"), *policy,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
	}
}

// validateFamiliesOfIPs requires that each address belongs to the IP family with the same index.
func validateFamiliesOfIPs(f validation.Field, spec *corev1.ServiceSpec) {
	if spec.ClusterIP == corev1.ClusterIPNone {
		return
	}
	for i, ip := range spec.ClusterIPs[:min(len(spec.ClusterIPs), len(spec.IPFamilies))] {
		if family := spec.IPFamilies[i]; (family == corev1.IPv6Protocol) != isIPv6(ip) {
			f.Index(i).Invalid(ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", family, i))
		}
	}
}

// validateReleasedFamily rejects an update that removes the second address or family, unless the policy is
// SingleStack.
func validateReleasedFamily(f validation.Field, spec, before *corev1.ServiceSpec) {
	if isSingleStack(spec) || spec.IPFamilyPolicy == nil {
		return
	}
	if n := len(spec.ClusterIPs); n > 0 && n < len(before.ClusterIPs) {
		f.Invalid(*spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP")
	}
	if n := len(spec.IPFamilies); n > 0 && n < len(before.IPFamilies) {
		f.Invalid(*spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family")
	}
}

// validateIPFamiliesUpdate rejects changes of the IP families of a service with addresses, except adding or
// removing the second family. As in kube-apiserver, if the number of families changes, the error contains the
// addresses instead of the families.
func validateIPFamiliesUpdate(f validation.Field, service, old *corev1.Service) {
	families, before := service.Spec.IPFamilies, old.Spec.IPFamilies
	if len(addressesOf(service)) == 0 || len(addressesOf(old)) == 0 || len(families) == 0 {
		return
	}
	if len(families) != len(before) {
		if len(before) > 0 && families[0] != before[0] {
			f.Invalid(service.Spec.ClusterIPs, "may not change once set")
		}
		return
	}
	for i := range before {
		if families[i] != before[i] {
			f.Invalid(families, "may not change once set")
		}
	}
}

// validateSingleStack rejects a second address or family if the policy is SingleStack. The addresses and
// families have already been validated individually.
func validateSingleStack(f validation.Field, spec *corev1.ServiceSpec) {
	if spec.IPFamilyPolicy == nil || *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		return
	}
	if len(spec.ClusterIPs) == 2 {
		f.Invalid(*spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
	}
	if len(spec.IPFamilies) == 2 {
		f.Invalid(*spec.IPFamilyPolicy, "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
	}
}

// validateServiceUpdate rejects changes of fields that are immutable unless the type of the service changes.
func validateServiceUpdate(f validation.Field, service, old *corev1.Service) {
	if needsHealthCheckPort(service) && needsHealthCheckPort(old) && service.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		f.Child("healthCheckNodePort").Forbidden("field is immutable")
	}
	validateClusterIPsUpdate(f.Child("clusterIPs"), service, old)
	validateIPFamiliesUpdate(f.Child("ipFamilies").Index(0), service, old)
	if isLoadBalancer(service) && isLoadBalancer(old) && validation.Changed(service.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		f.Child("loadBalancerClass").Invalid(service.Spec.LoadBalancerClass, "may not change once set")
	}
}

// validateClusterIPsUpdate rejects changes of existing addresses, unless the type of the service changes to or
// from ExternalName.
func validateClusterIPsUpdate(f validation.Field, service, old *corev1.Service) {
	if service.Spec.Type == corev1.ServiceTypeExternalName || !needsClusterIP(old) || old.Spec.ClusterIP == "" {
		return
	}
	ips := service.Spec.ClusterIPs
	for i, ip := range old.Spec.ClusterIPs {
		if i < len(ips) && ips[i] != ip {
			f.Index(i).Invalid(ips, "may not change once set")
		}
	}
}

func validateServiceStatus(f validation.Field, service, old *corev1.Service) {
	f = f.Child("status").Child("loadBalancer").Child("ingress")
	if len(service.Status.LoadBalancer.Ingress) > 0 && !isLoadBalancer(service) {
		f.Forbidden("may only be used when `spec.type` is 'LoadBalancer'")
		return
	}
	var before []string
	for i := range old.Status.LoadBalancer.Ingress {
		before = append(before, old.Status.LoadBalancer.Ingress[i].IP)
	}
	for i := range service.Status.LoadBalancer.Ingress {
		ingress, at := &service.Status.LoadBalancer.Ingress[i], f.Index(i)
		if ingress.IP != "" {
			at.Child("ip").IP(ingress.IP, before...)
		}
		if mode := ingress.IPMode; mode != nil {
			if ingress.IP == "" {
				at.Child("ipMode").Forbidden("may not be specified when `ip` is not set")
			} else {
				validation.OneOf(at.Child("ipMode"), *mode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)
			}
		}
		if ingress.Hostname != "" {
			if isIP(ingress.Hostname) {
				at.Child("hostname").Invalid(ingress.Hostname, "must be a DNS name, not an IP address")
			} else {
				at.Child("hostname").DNSSubdomain(ingress.Hostname)
			}
		}
	}
}

func isIP(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}
