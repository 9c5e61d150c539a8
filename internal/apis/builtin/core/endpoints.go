package core

import (
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func endpointsColumns() *builtin.Columns[*corev1.Endpoints] {
	return &builtin.Columns[*corev1.Endpoints]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Endpoints", "string", corev1.Endpoints{}.SwaggerDoc()["subsets"]),
			builtin.AgeColumn(),
		},
		Cells: func(endpoints *corev1.Endpoints, now time.Time) []any {
			return []any{endpoints.Name, addressText(endpoints.Subsets), builtin.Age(endpoints.CreationTimestamp, now)}
		},
	}
}

// shownAddresses is the maximum number of addresses in a cell.
const shownAddresses = 3

// addressText formats the ready addresses with their ports.
func addressText(subsets []corev1.EndpointSubset) string {
	if len(subsets) == 0 {
		return builtin.None
	}
	var shown []string
	for i := range subsets {
		subset := &subsets[i]
		if len(subset.Ports) == 0 {
			for j := range subset.Addresses {
				shown = append(shown, subset.Addresses[j].IP)
			}
		}
		for j := range subset.Ports {
			port := strconv.Itoa(int(subset.Ports[j].Port))
			for k := range subset.Addresses {
				shown = append(shown, net.JoinHostPort(subset.Addresses[k].IP, port))
			}
		}
	}
	return builtin.JoinFirst(shown, ",", shownAddresses)
}

// endpointsController is the label value of the Endpoints that the controller creates for a
// Service. They cause no warnings.
const (
	managedByLabel      = "endpoints.kubernetes.io/managed-by"
	endpointsController = "endpoint-controller"
)

func endpointsWarnings(_ *builtin.Operation, endpoints, _ *corev1.Endpoints) []string {
	if endpoints.Labels[managedByLabel] == endpointsController {
		return nil
	}
	var warnings []string
	path := field.NewPath("subsets")
	for i := range endpoints.Subsets {
		subset, at := &endpoints.Subsets[i], path.Index(i)
		warnings = append(warnings, endpointWarnings(at.Child("addresses"), subset.Addresses)...)
		warnings = append(warnings, endpointWarnings(at.Child("notReadyAddresses"), subset.NotReadyAddresses)...)
	}
	return warnings
}

// endpointWarnings warns about addresses that programs parse in different ways.
func endpointWarnings(path *field.Path, addresses []corev1.EndpointAddress) []string {
	var warnings []string
	for i := range addresses {
		warnings = append(warnings, validation.GetWarningsForIP(path.Index(i).Child("ip"), addresses[i].IP)...)
	}
	return warnings
}
