package networking

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// maxPolicyTypes is the maximum length of the list of policy types, which may contain duplicates.
const maxPolicyTypes = 2

func validateNetworkPolicy(f validation.Field, policy, old *networkingv1.NetworkPolicy) {
	f, spec := f.Child("spec"), &policy.Spec
	ratchet := newPolicyRatchet(f, old)
	ratchet.validateSelector(f.Child("podSelector"), &spec.PodSelector)
	for i := range spec.Ingress {
		rule, at := &spec.Ingress[i], f.Child("ingress").Index(i)
		validatePolicyPorts(at.Child("ports"), rule.Ports)
		ratchet.validatePeers(at.Child("from"), rule.From)
	}
	for i := range spec.Egress {
		rule, at := &spec.Egress[i], f.Child("egress").Index(i)
		validatePolicyPorts(at.Child("ports"), rule.Ports)
		ratchet.validatePeers(at.Child("to"), rule.To)
	}
	validatePolicyTypes(f.Child("policyTypes"), spec.PolicyTypes)
}

func validatePolicyTypes(f validation.Field, types []networkingv1.PolicyType) {
	if len(types) > maxPolicyTypes {
		f.Invalid(types, "may not specify more than two policyTypes")
		return
	}
	for i, kind := range types {
		validation.OneOf(f.Index(i), kind, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
}

func validatePolicyPorts(f validation.Field, ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		port, at := &ports[i], f.Index(i)
		if port.Protocol != nil {
			validation.OneOf(at.Child("protocol"), *port.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		}
		if port.Port != nil {
			at.Child("port").PortNumberOrName(*port.Port)
		}
		if port.EndPort != nil {
			validateEndPort(at.Child("endPort"), *port.EndPort, port.Port)
		}
	}
}

func validateEndPort(f validation.Field, end int32, start *intstr.IntOrString) {
	switch {
	case start == nil:
		f.Invalid(end, "may not be specified when `port` is not specified")
	case start.Type != intstr.Int:
		f.Invalid(end, "may not be specified when `port` is non-numeric")
	default:
		if end < start.IntVal { // as in kube-apiserver, the error contains port, not endPort
			f.Invalid(start.IntVal, "must be greater than or equal to `port`")
		}
		f.PortNumber(end)
	}
}

// policyRatchet contains the values that a stored network policy may keep, but a new policy must not have.
type policyRatchet struct {
	old *networkingv1.NetworkPolicySpec // nil on creation
	// looseSelectors is set if the pod selector of the old policy is invalid. In this case, all selectors may
	// have arbitrary values.
	looseSelectors bool
	// cidrs contains all CIDRs of the old policy, regardless of their position, because rules, peers and
	// exceptions have no names. It is nil until had is called.
	cidrs map[string]struct{}
}

func newPolicyRatchet(f validation.Field, old *networkingv1.NetworkPolicy) policyRatchet {
	if old == nil {
		return policyRatchet{}
	}
	loose := f.Violates(func(f validation.Field) { f.LabelSelector(&old.Spec.PodSelector) })
	return policyRatchet{old: &old.Spec, looseSelectors: loose}
}

func (r *policyRatchet) validateSelector(f validation.Field, selector *metav1.LabelSelector) {
	if r.looseSelectors {
		f.LooseLabelSelector(selector)
	} else {
		f.LabelSelector(selector)
	}
}

func (r *policyRatchet) validatePeers(f validation.Field, peers []networkingv1.NetworkPolicyPeer) {
	for i := range peers {
		peer, at := &peers[i], f.Index(i)
		r.validateSelector(at.Child("podSelector"), peer.PodSelector)
		r.validateSelector(at.Child("namespaceSelector"), peer.NamespaceSelector)
		selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
		switch {
		case peer.IPBlock != nil:
			r.validateIPBlock(at.Child("ipBlock"), peer.IPBlock)
			if selects {
				at.Forbidden("may not specify both ipBlock and another peer")
			}
		case !selects:
			at.Required("must specify a peer")
		}
	}
}

// validateIPBlock requires that exceptions are proper subsets of the block.
func (r *policyRatchet) validateIPBlock(f validation.Field, block *networkingv1.IPBlock) {
	if block.CIDR == "" {
		f.Child("cidr").Required("")
		return
	}
	whole, ok := r.validateCIDR(f.Child("cidr"), block.CIDR)
	if !ok {
		return
	}
	for i, except := range block.Except {
		at := f.Child("except").Index(i)
		part, ok := r.validateCIDR(at, except)
		if ok && (!whole.Contains(part.Addr()) || whole.Bits() >= part.Bits()) {
			at.Invalid(except, "must be a strict subset of `cidr`")
		}
	}
}

// validateCIDR validates a CIDR. It returns the CIDR as a prefix, or false if it cannot be parsed.
func (r *policyRatchet) validateCIDR(f validation.Field, cidr string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(cidr)
	plain := err == nil && prefix == prefix.Masked() && !prefix.Addr().Is4In6()
	if !plain && !r.had(cidr) {
		f.CIDR(cidr)
	}
	if err != nil {
		prefix, err = netip.ParsePrefix(withoutLeadingZeros(cidr))
	}
	return prefix.Masked(), err == nil
}

// withoutLeadingZeros removes leading zeros from the octets of an IPv4 CIDR. Old policies may contain them.
func withoutLeadingZeros(cidr string) string {
	octets := strings.Split(cidr, ".")
	for i, octet := range octets {
		octet = strings.TrimLeft(octet, "0")
		if octet == "" || octet[0] == '/' {
			octet = "0" + octet
		}
		octets[i] = octet
	}
	return strings.Join(octets, ".")
}

// had reports whether the old policy contains a CIDR.
func (r *policyRatchet) had(cidr string) bool {
	if r.old == nil {
		return false
	}
	if r.cidrs == nil {
		r.cidrs = make(map[string]struct{})
		for i := range r.old.Ingress {
			r.keep(r.old.Ingress[i].From)
		}
		for i := range r.old.Egress {
			r.keep(r.old.Egress[i].To)
		}
	}
	_, had := r.cidrs[cidr]
	return had
}

func (r *policyRatchet) keep(peers []networkingv1.NetworkPolicyPeer) {
	for i := range peers {
		if block := peers[i].IPBlock; block != nil {
			r.cidrs[block.CIDR] = struct{}{}
			for _, except := range block.Except {
				r.cidrs[except] = struct{}{}
			}
		}
	}
}
