package controlplane

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/apis/controlplanes"
)

// Keys maps the keys of a store to resources, for programs that read a store without a server. It is
// immutable and safe for concurrent use.
type Keys struct {
	prefix string
	// declared is the key prefix of the control planes that are declared by ControlPlane objects.
	declared string
	paths    map[string]schema.GroupResource
}

// NewKeys returns the Keys for a control plane whose keys are below prefix, such as "/registry", and for the
// control planes that are declared by its ControlPlane objects.
func NewKeys(prefix string) *Keys {
	k := &Keys{prefix: "/" + strings.Trim(prefix, "/") + "/", declared: controlplanes.KeyPrefix(prefix), paths: builtin.Paths(all.Groups())}
	maps.Copy(k.paths, leaseResources())
	return k
}

// Storage paths of the leases of servers. These leases do not belong to a resource.
const (
	serverLeasesPath = "masterleases"
	peerLeasesPath   = "peerserverleases"
)

// TransientPrefixes returns the prefixes of the keys of leases and events, which are meaningful only while the
// programs that wrote them run. The prefixes are relative to the prefix of a control plane. The caller owns the
// result.
func TransientPrefixes() []string {
	return []string{"events/", "leases/", serverLeasesPath + "/", peerLeasesPath + "/"}
}

// leaseResources returns, by path, the resource names that kube-apiserver's encryption configuration uses for
// the leases of servers.
func leaseResources() map[string]schema.GroupResource {
	return map[string]schema.GroupResource{serverLeasesPath: corev1.Resource("apiserveripinfo"), peerLeasesPath: corev1.Resource("apiserverpeeripinfo")}
}

// Resource returns the resource of a key, or false if the key is outside of the prefix or belongs to
// no resource. The keys and certificates of a declared control plane are encrypted like Secrets.
func (k *Keys) Resource(key string) (schema.GroupResource, bool) {
	path, _, found := k.split(key)
	if below, ok := strings.CutPrefix(key, k.declared); ok {
		_, below, _ = strings.Cut(below, "/") // the UID
		if below == controlplanes.IdentityKey {
			return corev1.Resource("secrets"), true
		}
		if below, ok = strings.CutPrefix(below, controlplanes.ObjectPrefix+"/"); ok {
			path, _, found = k.splitBelow(below)
		}
	}
	if !found {
		return schema.GroupResource{}, false
	}
	if resource, found := k.paths[path]; found {
		return resource, true
	}
	group, resource, _ := strings.Cut(path, "/")
	return schema.GroupResource{Group: group, Resource: resource}, true
}

// pathOf returns the storage path of a resource. The path of a custom resource is its group and name.
func (k *Keys) pathOf(resource schema.GroupResource) string {
	for path, known := range k.paths {
		if known == resource {
			return path
		}
	}
	return resource.Group + "/" + resource.Resource
}

// split returns the storage path of a key's resource and the rest of the key, or false if the key
// belongs to no resource.
func (k *Keys) split(key string) (path, rest string, found bool) {
	below, found := strings.CutPrefix(key, k.prefix)
	if !found {
		return "", "", false
	}
	return k.splitBelow(below)
}

// splitBelow is like split, for a key without the prefix of the control plane.
func (k *Keys) splitBelow(below string) (path, rest string, found bool) {
	first, more, _ := strings.Cut(below, "/")
	second, last, _ := strings.Cut(more, "/")
	if _, found := k.paths[first+"/"+second]; found {
		return first + "/" + second, last, true
	}
	if _, found := k.paths[first]; found {
		return first, more, true
	}
	// Custom resources: group/resource/...
	return first + "/" + second, last, strings.Contains(first, ".") && second != ""
}
