package filters

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/request"
)

// StorageVersions returns a filter that rejects writes of a resource with 503 until the storage
// version of the resource has been published to other servers. pending reports whether the
// publication is pending, and returns its last error, which may be nil; it is called concurrently
// and must not block. Writes that the publication itself requires are never rejected. These are
// writes of StorageVersions and of the leases that identify servers.
func StorageVersions(pending func(schema.GroupResource) (pending bool, last error), onError ErrorWriter) Filter {
	return filterFunc(func(w http.ResponseWriter, r *http.Request) bool {
		info := request.InfoFrom(r.Context())
		resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
		if !info.IsResource || !mutating(info) || isServerRegistration(info.Namespace, resource) {
			return true
		}
		isPending, last := pending(resource)
		if isPending {
			onError(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf(
				"wait for storage version registration to complete for resource: %v, last seen error: %v", resource, last)))
		}
		return !isPending
	})
}

// isServerRegistration reports whether servers use a resource to publish information about
// themselves.
func isServerRegistration(namespace string, resource schema.GroupResource) bool {
	switch resource {
	case schema.GroupResource{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}:
		return true
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return namespace == metav1.NamespaceSystem
	}
	return false
}
