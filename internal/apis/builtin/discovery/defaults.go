package discovery

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func defaultSlice(slice *discoveryv1.EndpointSlice) {
	for i := range slice.Ports {
		builtin.SetDefault(&slice.Ports[i].Name, "")
		builtin.SetDefault(&slice.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}
