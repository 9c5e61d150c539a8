package controlplane

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
)

// Keys maps the keys of a store to resources, for programs that read a store without a server. It is
// immutable and safe for concurrent use.
type Keys struct {
	prefix string
	paths  map[string]schema.GroupResource
}

// NewKeys returns the Keys for the keys below a prefix, such as "/registry".
func NewKeys(prefix string) *Keys {
	k := &Keys{prefix: "/" + strings.Trim(prefix, "/") + "/", paths: builtin.Paths(all.Groups())}
	maps.Copy(k.paths, leaseResources())
	return k
}

// The storage paths of the leases of servers, which do not belong to a resource.
const (
	serverLeasesPath = "masterleases"
	peerLeasesPath   = "peerserverleases"
)

// leaseResources returns the names that kube-apiserver uses for these leases in the configuration of
// encryption, by path.
func leaseResources() map[string]schema.GroupResource {
	return map[string]schema.GroupResource{serverLeasesPath: corev1.Resource("apiserveripinfo"), peerLeasesPath: corev1.Resource("apiserverpeeripinfo")}
}

// Resource returns the resource of a key, or false if the key is outside of the prefix or belongs to
// no resource.
func (k *Keys) Resource(key string) (schema.GroupResource, bool) {
	path, found := strings.CutPrefix(key, k.prefix)
	if !found {
		return schema.GroupResource{}, false
	}
	first, rest, _ := strings.Cut(path, "/")
	second, _, _ := strings.Cut(rest, "/")
	for _, path := range []string{first + "/" + second, first} {
		if resource, found := k.paths[path]; found {
			return resource, true
		}
	}
	// Custom resources: group/resource/...
	return schema.GroupResource{Group: first, Resource: second}, strings.Contains(first, ".") && second != ""
}
