package discovery

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// shownParts is the maximum number of ports or addresses in a table cell.
const shownParts = 3

// changed reports whether an update increments the generation. A change to the labels does, because they
// identify the service.
func changed(slice, old *discoveryv1.EndpointSlice) bool {
	return slice.AddressType != old.AddressType ||
		validation.Changed(slice.Endpoints, old.Endpoints) ||
		validation.Changed(slice.Ports, old.Ports) ||
		validation.Changed(slice.Labels, old.Labels)
}

// never disables the generic increment of the generation; prepareUpdate increments it instead.
func never(_, _ *discoveryv1.EndpointSlice) bool { return false }

func prepare(_ *builtin.Operation, slice *discoveryv1.EndpointSlice) { dropTopology(slice, nil) }

// prepareUpdate increments the generation before it drops topology, as kube-apiserver does: an
// update of the topology increments the generation although the topology is dropped.
func prepareUpdate(_ *builtin.Operation, slice, old *discoveryv1.EndpointSlice) {
	if changed(slice, old) {
		slice.Generation = old.Generation + 1
	}
	if validation.Changed(slice.Endpoints, old.Endpoints) {
		dropTopology(slice, old)
	}
}

// dropTopology drops deprecatedTopology, which is read-only in v1. If an endpoint has no nodeName, the node
// name in its topology moves to nodeName, but only if a topology of the old slice contains the same name.
func dropTopology(slice, old *discoveryv1.EndpointSlice) {
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		node, ok := endpoint.DeprecatedTopology[corev1.LabelHostname]
		endpoint.DeprecatedTopology = nil
		if ok && endpoint.NodeName == nil && namesNode(old, node) && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0 {
			endpoint.NodeName = &node
		}
	}
}

func namesNode(slice *discoveryv1.EndpointSlice, node string) bool {
	if slice == nil {
		return false
	}
	for i := range slice.Endpoints {
		if name, ok := slice.Endpoints[i].DeprecatedTopology[corev1.LabelHostname]; ok && name == node {
			return true
		}
	}
	return false
}

// Values of the managed-by label that the controllers set on their slices.
const (
	sliceController  = "endpointslice-controller.k8s.io"
	mirrorController = "endpointslicemirroring-controller.k8s.io"
)

// warnings warns about a deprecated address type, and about addresses that programs parse in different ways. It
// ignores slices that controllers manage, because they are large and have no such addresses.
func warnings(_ *builtin.Operation, slice, old *discoveryv1.EndpointSlice) []string {
	manager := slice.Labels[discoveryv1.LabelManagedBy]
	switch {
	case slice.AddressType == discoveryv1.AddressTypeFQDN && old == nil:
		return []string{"spec.addressType: FQDN endpoints are deprecated"}
	case slice.AddressType == discoveryv1.AddressTypeFQDN, manager == sliceController, manager == mirrorController:
		return nil
	}
	var found []string
	path := field.NewPath("endpoints")
	for i := range slice.Endpoints {
		for j, address := range slice.Endpoints[i].Addresses {
			found = append(found, utilvalidation.GetWarningsForIP(path.Index(i).Child("addresses").Index(j), address)...)
		}
	}
	return found
}

func columns() *builtin.Columns[*discoveryv1.EndpointSlice] {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return &builtin.Columns[*discoveryv1.EndpointSlice]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("AddressType", "string", doc["addressType"]),
			builtin.Column("Ports", "string", doc["ports"]),
			builtin.Column("Endpoints", "string", doc["endpoints"]),
			builtin.AgeColumn(),
		},
		Cells: func(slice *discoveryv1.EndpointSlice, now time.Time) []any {
			return []any{
				slice.Name, string(slice.AddressType), portsText(slice.Ports), addressesText(slice.Endpoints),
				builtin.Age(slice.CreationTimestamp, now),
			}
		},
	}
}

func portsText(ports []discoveryv1.EndpointPort) string {
	if len(ports) == 0 {
		return builtin.Unset
	}
	var texts []string
	for i := range ports {
		text := "*"
		if name := ports[i].Name; name != nil && *name != "" {
			text = *name
		}
		if number := ports[i].Port; number != nil {
			text = strconv.Itoa(int(*number))
		}
		texts = append(texts, text)
	}
	return builtin.JoinFirst(texts, ",", shownParts)
}

func addressesText(endpoints []discoveryv1.Endpoint) string {
	var addresses []string
	for i := range endpoints {
		addresses = append(addresses, endpoints[i].Addresses...)
	}
	if len(addresses) == 0 {
		return builtin.Unset
	}
	return builtin.JoinFirst(addresses, ",", shownParts)
}
