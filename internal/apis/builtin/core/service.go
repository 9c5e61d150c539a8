package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func services() builtin.Row[*corev1.Service] {
	return builtin.Row[*corev1.Service]{
		Names: builtin.Names{Plural: "services", Kind: "Service", ShortNames: []string{"svc"}, Categories: []string{"all"}}, Namespaced: true,
		Storage:     builtin.Storage{Path: "services/specs"},
		WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, ReturnDeletedObject: true, ValidateName: validation.NameIsDNSLabel},
		Strategy: builtin.Strategy[*corev1.Service]{
			Default:          defaultService,
			PrepareForCreate: prepareService, PrepareForUpdate: prepareServiceUpdate,
			Validate: validateService, Warnings: serviceWarnings, BeginTransaction: beginService,
		},
		Status: &builtin.Status[*corev1.Service]{Validate: validateServiceStatus},
		FieldSelectors: builtin.FieldSelectors[*corev1.Service]{
			Keys: []string{"spec.clusterIP", "spec.type"},
			Values: func(service *corev1.Service) fields.Set {
				return fields.Set{"spec.clusterIP": service.Spec.ClusterIP, "spec.type": string(service.Spec.Type)}
			},
		},
		Columns: serviceColumns(), Subresources: []builtin.Subresource{serviceProxy()},
	}
}

func serviceColumns() *builtin.Columns[*corev1.Service] {
	spec := corev1.ServiceSpec{}.SwaggerDoc()
	return &builtin.Columns[*corev1.Service]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Type", "string", spec["type"]),
			builtin.Column("Cluster-IP", "string", spec["clusterIP"]),
			builtin.Column("External-IP", "string", spec["externalIPs"]),
			builtin.Column("Port(s)", "string", spec["ports"]),
			builtin.AgeColumn(),
			builtin.WideColumn("Selector", "string", spec["selector"]),
		},
		Cells: func(service *corev1.Service, now time.Time) []any {
			clusterIP := builtin.None
			if len(service.Spec.ClusterIPs) > 0 {
				clusterIP = service.Spec.ClusterIPs[0]
			}
			return []any{
				service.Name, string(service.Spec.Type), clusterIP, externalText(service), portText(service.Spec.Ports),
				builtin.Age(service.CreationTimestamp, now), labelText(service.Spec.Selector),
			}
		},
	}
}

// externalText formats the external addresses of a service.
func externalText(service *corev1.Service) string {
	external := service.Spec.ExternalIPs
	switch service.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return builtin.OrNone(strings.Join(external, ","))
	case corev1.ServiceTypeLoadBalancer:
		all := append(ingressAddresses(&service.Status.LoadBalancer), external...)
		if len(all) == 0 {
			return "<pending>"
		}
		return strings.Join(all, ",")
	case corev1.ServiceTypeExternalName:
		return service.Spec.ExternalName
	}
	return builtin.Unknown
}

// ingressAddresses returns the distinct addresses and host names of a load balancer.
func ingressAddresses(status *corev1.LoadBalancerStatus) []string {
	var addresses []string
	for i := range status.Ingress {
		if ingress := &status.Ingress[i]; ingress.IP != "" {
			addresses = append(addresses, ingress.IP)
		} else if ingress.Hostname != "" {
			addresses = append(addresses, ingress.Hostname)
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

func portText(ports []corev1.ServicePort) string {
	texts := make([]string, len(ports))
	for i := range ports {
		port := &ports[i]
		if port.NodePort > 0 {
			texts[i] = fmt.Sprintf("%d:%d/%s", port.Port, port.NodePort, port.Protocol)
		} else {
			texts[i] = fmt.Sprintf("%d/%s", port.Port, port.Protocol)
		}
	}
	return builtin.OrNone(strings.Join(texts, ","))
}
