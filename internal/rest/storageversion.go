package rest

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StorageVersion says in which versions a server keeps the objects of a resource. The
// versions are written as in apiVersion.
type StorageVersion struct {
	schema.GroupResource
	// Also are resources of other groups by which the same objects are served.
	Also []schema.GroupResource
	// Encoding is the version that objects are stored in, one of Decodable, which are
	// those that can be read. Served are those that clients may ask for.
	Encoding          string
	Decodable, Served []string
}

// ServedIn adds that the objects are served by a resource, whose group may be another.
func (v *StorageVersion) ServedIn(r *Resource) {
	of := r.GroupResource()
	switch {
	case of == v.GroupResource:
		v.Served = append(v.Served, r.GroupVersion.String())
	case !slices.Contains(v.Also, of):
		v.Also = append(v.Also, of)
	}
}
