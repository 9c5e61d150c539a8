package core

import (
	"fmt"
	"net"
	"strconv"
	"strings"
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

// addressText formats the first ready addresses with their ports, followed by the number of omitted addresses.
// It does not format all of them, because an object of 1 MiB can have a billion pairs of an address and a
// port.
func addressText(subsets []corev1.EndpointSubset) string {
	if len(subsets) == 0 {
		return builtin.None
	}
	var shown []string
	total := 0
	for i := range subsets {
		subset := &subsets[i]
		total += len(subset.Addresses) * max(1, len(subset.Ports))
		shown = appendAddresses(shown, subset)
	}
	text := strings.Join(shown, ",")
	if total > len(shown) {
		text += fmt.Sprintf(" + %d more...", total-len(shown))
	}
	return text
}

// appendAddresses appends the addresses of a subset to shown, up to shownAddresses.
func appendAddresses(shown []string, subset *corev1.EndpointSubset) []string {
	for port := range max(1, len(subset.Ports)) {
		for i := range subset.Addresses {
			if len(shown) == shownAddresses {
				return shown
			}
			text := subset.Addresses[i].IP
			if len(subset.Ports) > 0 {
				text = net.JoinHostPort(text, strconv.Itoa(int(subset.Ports[port].Port)))
			}
			shown = append(shown, text)
		}
	}
	return shown
}

// endpointsController is the managed-by label value of Endpoints objects that the controller creates for a
// Service. These objects cause no warnings.
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

// endpointWarnings returns warnings for addresses that different programs parse differently.
func endpointWarnings(path *field.Path, addresses []corev1.EndpointAddress) []string {
	var warnings []string
	for i := range addresses {
		warnings = append(warnings, validation.GetWarningsForIP(path.Index(i).Child("ip"), addresses[i].IP)...)
	}
	return warnings
}
