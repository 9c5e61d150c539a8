package builtin

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/request"
)

// AccessAttributes are what an access review asks about: whether the user may
// do something to a resource, or to a path that is none.
type AccessAttributes struct {
	User *request.User
	Verb string
	// IsResource tells resources, which the next fields describe, from paths.
	IsResource bool
	// Version is "*" where the review leaves it open.
	Group, Version, Namespace   string
	Resource, Subresource, Name string
	// The requirements that all objects asked for meet; nil where there are
	// none. Those that could not be read are left out, which asks for more.
	FieldSelector fields.Requirements
	LabelSelector labels.Requirements
	// Path is that of a question for other than resources.
	Path string
}
