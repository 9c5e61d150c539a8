package controlplane

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
)

// Keys maps keys to resources, for readers of a store without a server.
type Keys struct {
	prefix string
	paths  map[string]schema.GroupResource
}

// NewKeys returns the Keys below a prefix.
func NewKeys(prefix string) *Keys {
	k := &Keys{prefix: "/" + strings.Trim(prefix, "/") + "/", paths: builtin.Paths(all.Groups())}
	maps.Copy(k.paths, leaseResources())
	return k
}

// The leases of servers are stored under paths, and called by names, that are no
// resource's.
const (
	serverLeasesPath = "masterleases"
	peerLeasesPath   = "peerserverleases"
)

// leaseResources returns the resources with names in etcd paths.
func leaseResources() map[string]schema.GroupResource {
	return map[string]schema.GroupResource{serverLeasesPath: corev1.Resource("apiserveripinfo"), peerLeasesPath: corev1.Resource("apiserverpeeripinfo")}
}

// Resource returns the resource of a key. It is false for keys of others.
func (k *Keys) Resource(key string) (schema.GroupResource, bool) {
	path, ours := strings.CutPrefix(key, k.prefix)
	if !ours {
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
