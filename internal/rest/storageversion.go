package rest

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StorageVersion contains the versions in which a server stores a resource, in the format of
// apiVersion.
type StorageVersion struct {
	schema.GroupResource
	// Aliases are resources of other groups by which the same objects are served.
	Aliases []schema.GroupResource
	// Encoding is the version of stored objects, one of Decodable, which are the readable versions.
	// Served are the versions for clients.
	Encoding          string
	Decodable, Served []string
}

// AddServed adds a serving resource, which may be in another group.
func (v *StorageVersion) AddServed(r *Resource) {
	of := r.GroupResource()
	switch {
	case of == v.GroupResource:
		v.Served = append(v.Served, r.GroupVersion.String())
	case !slices.Contains(v.Aliases, of):
		v.Aliases = append(v.Aliases, of)
	}
}
