package filters

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/request"
)

// StorageVersions refuses writes of resources with 503 for as long as others have not been
// told in which version they would be stored; pending returns which those are, and why the
// last attempt to tell failed. Writes that telling needs pass: of StorageVersions, and of
// the leases by which servers are known.
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

// tellsOfServers reports whether objects of a resource tell others of servers.
func tellsOfServers(namespace string, resource schema.GroupResource) bool {
	switch resource {
	case schema.GroupResource{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}:
		return true
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return namespace == metav1.NamespaceSystem
	}
	return false
}
