package filters

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/request"
)

// StorageVersions rejects writes of a resource with 503 until its storage version is published to
// other servers. pending reports whether the publication is pending, and returns its last error.
// Writes that the publication requires are passed: writes of StorageVersions, and of the leases
// that identify servers.
func StorageVersions(pending func(schema.GroupResource) (pending bool, last error), onError ErrorWriter) Filter {
	return passing(func(w http.ResponseWriter, r *http.Request) bool {
		info := request.InfoFrom(r.Context())
		resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
		if !info.IsResource || !mutating(info) || tellsOfServers(info.Namespace, resource) {
			return true
		}
		is, last := pending(resource)
		if is {
			onError(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf(
				"wait for storage version registration to complete for resource: %v, last seen error: %v", resource, last)))
		}
		return !is
	})
}

// tellsOfServers reports whether a resource is used to publish information about servers.
func tellsOfServers(namespace string, resource schema.GroupResource) bool {
	switch resource {
	case schema.GroupResource{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}:
		return true
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return namespace == metav1.NamespaceSystem
	}
	return false
}
