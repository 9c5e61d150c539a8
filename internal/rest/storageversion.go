package rest

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StorageVersion contains the API versions of a stored resource, in the format of apiVersion.
type StorageVersion struct {
	schema.GroupResource
	// Aliases are the resources of other groups that serve the same objects.
	Aliases []schema.GroupResource
	// Encoding is the version in which objects are stored, Decodable are the versions that can be
	// read from storage, and Served are the versions that clients can use.
	Encoding          string
	Decodable, Served []string
}

// AddServed adds the version of a served resource to Served. If the resource has another group or
// name, AddServed adds the resource to Aliases instead.
func (v *StorageVersion) AddServed(r *Resource) {
	of := r.GroupResource()
	switch {
	case of == v.GroupResource:
		v.Served = append(v.Served, r.GroupVersion.String())
	case !slices.Contains(v.Aliases, of):
		v.Aliases = append(v.Aliases, of)
	}
}
