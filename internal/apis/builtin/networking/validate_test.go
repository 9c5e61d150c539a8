package networking

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/feature"
)

func newIngress() *networkingv1.Ingress {
	return &networkingv1.Ingress{Spec: networkingv1.IngressSpec{
		TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.example"}, SecretName: "s"}},
		Rules: []networkingv1.IngressRule{{Host: "*.example", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/a", PathType: new(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: "0s", Port: networkingv1.ServiceBackendPort{Number: 80},
				}},
			}}},
		}}},
	}}
}

func firstPath(ingress *networkingv1.Ingress) *networkingv1.HTTPIngressPath {
	return &ingress.Spec.Rules[0].HTTP.Paths[0]
}

func setPath(kind networkingv1.PathType, path string) func(*networkingv1.Ingress) {
	return func(i *networkingv1.Ingress) { firstPath(i).PathType, firstPath(i).Path = &kind, path }
}

func setHost(host string) func(*networkingv1.Ingress) {
	return func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = host }
}

func TestIngresses(t *testing.T) {
	t.Parallel()
	const path = "spec.rules[0].http.paths[0].path: Invalid value: "
	validationtest.Rules[networkingv1.Ingress](validateIngress).Create(t, newIngress, []validationtest.Case[networkingv1.Ingress]{
		{Name: "no path", Change: setPath(networkingv1.PathTypeImplementationSpecific, "")},
		{Name: "any path", Change: setPath(networkingv1.PathTypeImplementationSpecific, "/a//b/..")},
		{Name: "a relative path", Change: setPath(networkingv1.PathTypeImplementationSpecific, "a"), Want: []string{path + `"a": must be an absolute path`}},
		{Name: "a path that proxies normalize", Change: setPath(networkingv1.PathTypeExact, "/a/./%2Fb/.."),
			Want: []string{"must not contain '/./'", "must not contain '%2F'", "cannot end with '/..'"}},
		{Name: "an address with leading zeros", Change: setHost("010.0.0.1"), Want: []string{"must be a DNS name, not an IP address"}},
		{Name: "an IPv6 address", Change: setHost("::1"), Want: []string{"must be a DNS name, not an IP address", "a lowercase RFC 1123 subdomain"}},
		{Name: "five numbers", Change: setHost("10.0.0.1.2")},
		{Name: "only a wildcard", Change: setHost("*"), Want: []string{"a wildcard DNS-1123 subdomain must start with '*.'"}},
		{Name: "an empty class", Change: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = new("") }, Want: []string{"spec.ingressClassName: Invalid value"}},
		{Name: "annotation differs from the class", Change: func(i *networkingv1.Ingress) {
			i.Annotations, i.Spec.IngressClassName = map[string]string{annotationIngressClass: "a"}, new("a")
		}},
		{Name: "a resource", Change: func(i *networkingv1.Ingress) {
			i.Spec.DefaultBackend = &networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "a/b", Name: ".."}}
		}, Want: []string{"spec.defaultBackend.resource.kind: Invalid value: \"a/b\": may not contain '/'", "resource.name: Invalid value: \"..\": may not be '..'"}},
	})
}

func TestIngressUpdates(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[networkingv1.Ingress](validateIngress)
	annotated := func() *networkingv1.Ingress {
		i := newIngress()
		i.Annotations, i.Spec.IngressClassName = map[string]string{annotationIngressClass: "a"}, new("b")
		return i
	}
	rules.Update(t, annotated, nil)
	loose := func() *networkingv1.Ingress {
		i := newIngress()
		i.Spec.TLS[0].SecretName = "Bad_"
		setPath(networkingv1.PathTypePrefix, "a")(i)
		return i
	}
	rules.Update(t, loose, []validationtest.Case[networkingv1.Ingress]{
		{Name: "another bad secret", Change: func(i *networkingv1.Ingress) { i.Spec.TLS[0].SecretName = "Bad_2" }},
		{Name: "another bad path", Change: setPath(networkingv1.PathTypePrefix, "b")},
		{Name: "a host without wildcards", Change: setHost("a.example"), Want: []string{"must be an absolute path"}},
	})
	rules.Update(t, newIngress, []validationtest.Case[networkingv1.Ingress]{
		{Name: "a bad secret", Change: func(i *networkingv1.Ingress) { i.Spec.TLS[0].SecretName = "Bad_" }, Want: []string{"spec.tls[0].secretName"}},
		{Name: "a bad path", Change: setPath(networkingv1.PathTypePrefix, "b"), Want: []string{"must be an absolute path"}},
	})
}

func TestIngressStatus(t *testing.T) {
	t.Parallel()
	points := func(points ...networkingv1.IngressLoadBalancerIngress) func() *networkingv1.Ingress {
		return func() *networkingv1.Ingress {
			return &networkingv1.Ingress{Status: networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: slices.Clone(points)}}}
		}
	}
	rules := validationtest.Rules[networkingv1.Ingress](validateIngressStatus)
	rules.Update(t, points(networkingv1.IngressLoadBalancerIngress{IP: "010.0.0.1"}), []validationtest.Case[networkingv1.Ingress]{
		{Name: "another address with leading zeros", Change: func(i *networkingv1.Ingress) { i.Status.LoadBalancer.Ingress[0].IP = "010.0.0.2" },
			Want: []string{`status.loadBalancer.ingress[0].ip: Invalid value: "010.0.0.2": must not have leading 0s`}},
		{Name: "an address as hostname", Change: func(i *networkingv1.Ingress) { i.Status.LoadBalancer.Ingress[0].Hostname = "10.0.0.1" },
			Want: []string{"status.loadBalancer.ingress[0].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"}},
	})
}

func newPolicy() *networkingv1.NetworkPolicy {
	port := intstr.FromInt32(80)
	return &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From:  []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: &port, EndPort: new(int32(80))}},
		}},
		Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}},
	}}
}

func setBlock(cidr string, except ...string) func(*networkingv1.NetworkPolicy) {
	return func(p *networkingv1.NetworkPolicy) {
		p.Spec.Ingress[0].From[0].IPBlock = &networkingv1.IPBlock{CIDR: cidr, Except: except}
	}
}

func anySelector(value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{value},
	}}}
}

func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	const strict = "must be a strict subset of `cidr`"
	validationtest.Rules[networkingv1.NetworkPolicy](validateNetworkPolicy).Create(t, newPolicy, []validationtest.Case[networkingv1.NetworkPolicy]{
		{Name: "exception equals the block", Change: setBlock("10.0.0.0/8", "10.0.0.0/8"), Want: []string{strict}},
		{Name: "a larger exception", Change: setBlock("10.0.0.0/8", "10.0.0.0/7"), Want: []string{strict}},
		{Name: "exception of another family", Change: setBlock("10.0.0.0/8", "fd00::/64"), Want: []string{strict}},
		{Name: "all IPv6 addresses", Change: setBlock("::/0", "fd00::/64")},
		{Name: "bits after the prefix", Change: setBlock("10.0.0.1/8"), Want: []string{"must not have bits set beyond the prefix length"}},
		{Name: "leading zeros", Change: setBlock("010.0.0.0/8", "11.0.0.0/16"), Want: []string{"must not have leading 0s", strict}},
		{Name: "duplicate type", Change: func(p *networkingv1.NetworkPolicy) {
			p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeIngress}
		}},
		{Name: "an invalid label value", Change: func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector = anySelector("-") },
			Want: []string{"spec.podSelector.matchExpressions[0].values[0]: Invalid value: \"-\""}},
	})
}

func TestNetworkPolicyUpdates(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[networkingv1.NetworkPolicy](validateNetworkPolicy)
	old := func() *networkingv1.NetworkPolicy {
		p := newPolicy()
		setBlock("010.0.0.0/8", "10.1.0.1/16")(p)
		return p
	}
	rules.Update(t, old, []validationtest.Case[networkingv1.NetworkPolicy]{
		{Name: "old CIDR in another rule", Change: func(p *networkingv1.NetworkPolicy) {
			p.Spec.Egress[0].To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.1.0.1/16"}}}
		}},
		{Name: "new invalid CIDR", Change: setBlock("010.0.0.0/8", "10.2.0.1/16"), Want: []string{"ipBlock.except[0]: Invalid value: \"10.2.0.1/16\""}},
		{Name: "exception outside the block", Change: setBlock("10.1.0.1/16", "010.0.0.0/8"), Want: []string{"must be a strict subset of `cidr`"}},
	})
	loose := func() *networkingv1.NetworkPolicy {
		p := newPolicy()
		p.Spec.PodSelector = anySelector("-")
		return p
	}
	rules.Update(t, loose, []validationtest.Case[networkingv1.NetworkPolicy]{
		{Name: "invalid selector in a peer", Change: func(p *networkingv1.NetworkPolicy) { *p.Spec.Egress[0].To[0].PodSelector = anySelector("_") }},
	})
	rules.Update(t, newPolicy, []validationtest.Case[networkingv1.NetworkPolicy]{
		{Name: "invalid selector in a peer", Change: func(p *networkingv1.NetworkPolicy) { *p.Spec.Egress[0].To[0].PodSelector = anySelector("_") },
			Want: []string{"spec.egress[0].to[0].podSelector.matchExpressions[0].values[0]"}},
	})
}

// TestCIDRsWithoutStrictness checks that CIDRs that programs parse in different ways are accepted with a
// warning if the StrictIPCIDRValidation gate is disabled.
func TestCIDRsWithoutStrictness(t *testing.T) {
	t.Parallel()
	policy := newPolicy()
	setBlock("010.0.0.0/8", "10.1.0.1/16")(policy)
	gates, err := feature.Defaults().Parse("StrictIPCIDRValidation=false")
	if err != nil {
		t.Fatal(err)
	}
	if faults := validationtest.Errors(t, gates, func(f validation.Field) { validateNetworkPolicy(f, policy, nil) }); faults != nil {
		t.Error(faults)
	}
	want := []string{
		`spec.ingress[0].from[0].ipBlock.cidr: non-standard CIDR value "010.0.0.0/8" is invalid: use "10.0.0.0/8"`,
		`spec.ingress[0].from[0].ipBlock.except[0]: CIDR value "10.1.0.1/16" is ambiguous in this context (should be "10.1.0.0/16" or "10.1.0.1/32"?)`,
	}
	if diff := cmp.Diff(want, networkPolicyWarnings(nil, policy, nil)); diff != "" {
		t.Error(diff)
	}
}

// TestValidObjectsDoNotAllocate checks that the validation of valid objects does not allocate.
func TestValidObjectsDoNotAllocate(t *testing.T) {
	ingress, policy, validator := newIngress(), newPolicy(), validation.NewValidator(feature.Defaults())
	alloctest.None(t, "Ingress and NetworkPolicy", func() {
		errs := validator.Validate(t.Context(), func(f validation.Field) {
			validateIngress(f, ingress, nil)
			validateIngress(f, ingress, ingress)
			validateNetworkPolicy(f, policy, nil)
			validateNetworkPolicy(f, policy, policy)
		})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
	})
}

func TestIngressWarnings(t *testing.T) {
	t.Parallel()
	ingress := newIngress()
	ingress.Annotations = map[string]string{annotationIngressClass: "a"}
	want := []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}
	if diff := cmp.Diff(want, ingressWarnings(nil, ingress, nil)); diff != "" {
		t.Error(diff)
	}
	if got := ingressWarnings(nil, ingress, ingress); got != nil {
		t.Errorf("warnings on update: %v", got)
	}
}

func TestAddressUpdates(t *testing.T) {
	t.Parallel()
	stored := func() *networkingv1.IPAddress {
		return &networkingv1.IPAddress{Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Name: "n"}}}
	}
	validationtest.Rules[networkingv1.IPAddress](validateIPAddress).Update(t, stored, []validationtest.Case[networkingv1.IPAddress]{
		{Name: "another parent", Change: func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Name = "m" }, Want: []string{"field is immutable"}},
		{Name: "no parent resource", Change: func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Resource = "" },
			Want: []string{"spec.parentRef.resource: Required value", "field is immutable"}},
		{Name: "generateName is no address", Change: func(a *networkingv1.IPAddress) { a.GenerateName = "x-" },
			Want: []string{"metadata.generateName: Invalid value: \"x-\": must be a valid IP address"}},
	})
}

func TestServiceCIDRs(t *testing.T) {
	t.Parallel()
	const four, six = "10.0.0.0/16", "fd00::/112"
	ranges := func(cidrs ...string) func() *networkingv1.ServiceCIDR {
		return func() *networkingv1.ServiceCIDR {
			return &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
		}
	}
	set := func(cidrs ...string) func(*networkingv1.ServiceCIDR) {
		return func(c *networkingv1.ServiceCIDR) { c.Spec.CIDRs = cidrs }
	}
	rules := validationtest.Rules[networkingv1.ServiceCIDR](validateServiceCIDR)
	rules.Create(t, ranges(four, six), []validationtest.Case[networkingv1.ServiceCIDR]{
		{Name: "two ranges of one family", Change: set(four, "10.1.0.0/16"), Want: []string{"may specify no more than one IP for each IP family"}},
		{Name: "not canonical", Change: set("fd00:0::/112"), Want: []string{`must be in canonical form ("fd00::/112")`}},
	})
	rules.Update(t, ranges(four), []validationtest.Case[networkingv1.ServiceCIDR]{
		{Name: "a family is added", Change: set(four, six)},
		{Name: "a family is added first", Change: set(six, four), Want: []string{`spec.cidrs[0]: Invalid value: "fd00::/112": field is immutable`}},
		{Name: "a range of the same family is added", Change: set(four, "10.1.0.0/16"), Want: []string{"may specify no more than one IP for each IP family"}},
	})
	rules.Update(t, ranges(four, six), []validationtest.Case[networkingv1.ServiceCIDR]{
		{Name: "a family is removed", Change: set(four), Want: []string{"spec.cidrs: Invalid value"}},
	})
}
