package rest

import "k8s.io/apimachinery/pkg/runtime/schema"

// Group is an API group with its versions. It is shared and must not be modified.
type Group struct {
	Name string
	// Versions are in order of preference.
	Versions []Version
}

// Version is a version of an API group with its resources.
type Version struct {
	GroupVersion schema.GroupVersion
	Resources    []*Resource
}
