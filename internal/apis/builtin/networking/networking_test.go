package networking

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestAddressNames(t *testing.T) {
	t.Parallel()
	const invalid = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
	for name, want := range map[string][]string{
		"10.9.8.7": nil, "2001:db8::ffff": nil, "a.b": {invalid}, "system:x": {invalid},
		"2001:DB8::ffff": {`must be in canonical form ("2001:db8::ffff")`},
	} {
		if diff := cmp.Diff(want, validateAddress(name, false)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	rules := []networkingv1.IngressRule{{Host: "a"}, {}, {Host: "b"}, {Host: "c"}, {Host: "d"}, {Host: "e"}}
	if got := hostsText(rules); got != "a,b,c + 2 more..." {
		t.Errorf("hosts: %s", got)
	}
	points := []networkingv1.IngressLoadBalancerIngress{{Hostname: "z"}, {IP: "10.0.0.1"}, {IP: "10.0.0.1"}, {}}
	if got := pointsText(points); got != "10.0.0.1,z" {
		t.Errorf("points: %s", got)
	}
	group := "Example.com"
	if got := parametersText(&networkingv1.IngressClassParametersReference{APIGroup: &group, Kind: "K", Name: "n"}); got != "K.Example.com/n" {
		t.Errorf("parameters: %s", got)
	}
	if got := parentText(&networkingv1.ParentReference{Group: "g", Resource: "Rs", Namespace: "ns", Name: "n"}); got != "rs.g/ns/n" {
		t.Errorf("parent: %s", got)
	}
}
