package rest

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StorageVersion contains the API versions of a stored resource, in the format of apiVersion.
type StorageVersion struct {
	schema.GroupResource
	// Aliases are the resources of other groups with the same objects.
	Aliases []schema.GroupResource
	// Encoding is the version in which objects are stored, Decodable are the versions that can be
	// read from storage, and Served are the versions for clients.
	Encoding          string
	Decodable, Served []string
}

// AddServed adds the version of a served resource, or its name to Aliases if it is in another group.
func (v *StorageVersion) AddServed(r *Resource) {
	of := r.GroupResource()
	switch {
	case of == v.GroupResource:
		v.Served = append(v.Served, r.GroupVersion.String())
	case !slices.Contains(v.Aliases, of):
		v.Aliases = append(v.Aliases, of)
	}
}
