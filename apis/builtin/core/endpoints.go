package core

import (
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

func endpointsColumns() *builtin.Columns[corev1.Endpoints] {
	return &builtin.Columns[corev1.Endpoints]{
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

// shownAddresses is how many addresses a cell has room for.
const shownAddresses = 3

// addressText shows the ready addresses with each of their ports.
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
	return builtin.Abridged(shown, ",", shownAddresses)
}
