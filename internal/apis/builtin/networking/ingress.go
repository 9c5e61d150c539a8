package networking

import (
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// shownHosts is the maximum number of hosts in a table cell.
const shownHosts = 3

func ingressColumns() *builtin.Columns[*networkingv1.Ingress] {
	return &builtin.Columns[*networkingv1.Ingress]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Class", "string", "The name of the IngressClass resource that should be used for additional configuration"),
			builtin.Column("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule"),
			builtin.Column("Address", "string", "Address is a list containing ingress points for the load-balancer"),
			builtin.Column("Ports", "string", "Ports of TLS configurations that open"),
			builtin.AgeColumn(),
		},
		Cells: func(ingress *networkingv1.Ingress, now time.Time) []any {
			class, ports := builtin.None, "80"
			if ingress.Spec.IngressClassName != nil {
				class = *ingress.Spec.IngressClassName
			}
			if len(ingress.Spec.TLS) > 0 {
				ports = "80, 443"
			}
			return []any{
				ingress.Name, class, hostsText(ingress.Spec.Rules), pointsText(ingress.Status.LoadBalancer.Ingress), ports,
				builtin.Age(ingress.CreationTimestamp, now),
			}
		},
	}
}

func hostsText(rules []networkingv1.IngressRule) string {
	var hosts []string
	for i := range rules {
		if rules[i].Host != "" {
			hosts = append(hosts, rules[i].Host)
		}
	}
	if len(hosts) == 0 {
		return "*"
	}
	return builtin.JoinFirst(hosts, ",", shownHosts)
}

func pointsText(points []networkingv1.IngressLoadBalancerIngress) string {
	var texts []string
	for i := range points {
		switch {
		case points[i].IP != "":
			texts = append(texts, points[i].IP)
		case points[i].Hostname != "":
			texts = append(texts, points[i].Hostname)
		}
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

func ingressClassColumns() *builtin.Columns[*networkingv1.IngressClass] {
	return &builtin.Columns[*networkingv1.IngressClass]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Controller", "string", "Controller that is responsible for handling this class"),
			builtin.Column("Parameters", "string", "A reference to a resource with additional parameters"),
			builtin.AgeColumn(),
		},
		Cells: func(class *networkingv1.IngressClass, now time.Time) []any {
			name := class.Name
			if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
				name += " (default)"
			}
			return []any{name, class.Spec.Controller, parametersText(class.Spec.Parameters), builtin.Age(class.CreationTimestamp, now)}
		},
	}
}

func parametersText(ref *networkingv1.IngressClassParametersReference) string {
	if ref == nil {
		return builtin.None
	}
	kind := ref.Kind
	if ref.APIGroup != nil {
		kind += "." + *ref.APIGroup
	}
	return kind + "/" + ref.Name
}
