package openapi

import "k8s.io/apimachinery/pkg/runtime/schema"

// Resource describes a resource or a subresource.
type Resource struct {
	// Name is the plural name in the URL: pods.
	Name string
	// Subresource is its name, such as status; empty for the resource itself.
	Subresource string
	// Kind is the kind of the resource, also for a subresource: Pod for
	// pods/eviction.
	Kind string
	// Object is the kind of objects in requests and responses. The zero value is Kind in the group
	// version of the part; pods/eviction has policy/v1, Eviction.
	Object     schema.GroupVersionKind
	Namespaced bool
	// Verbs are the supported verbs: create, delete, deletecollection, get, list, patch, update and
	// watch. A connect subresource has no verbs.
	Verbs []string
	// ReturnsDeleted: delete returns the object, not a Status.
	ReturnsDeleted bool
	// Connect are the HTTP methods, in upper case, of a connect subresource
	// such as pods/exec.
	Connect []string
	// ConnectPath: the connect subresource accepts a path, like pods/proxy.
	ConnectPath bool
	// Options is the kind of the query parameters of get or connect beyond
	// the common ones: PodLogOptions, PodExecOptions.
	Options string
	// Text: get returns text, as that of pods/log does.
	Text bool
}

// Part is a group version with its resources. It has a v3 document, and is a part
// of the v2 document.
type Part struct {
	GroupVersion schema.GroupVersion
	Resources    []Resource
	// Describe, if not nil, returns the resources in place of Resources. It is
	// called, possibly concurrently, whenever a document is built.
	Describe func() []Resource
	// Digest, if not nil, identifies all that the part describes, so that a
	// document need not be built for its ETag.
	Digest func() string
	// Custom marks custom resources: their media types and some parameters
	// differ, and their group has no document.
	Custom bool
	// Schemas returns the schemas by model name of kinds that are not built in,
	// among them that of each kind and its list, for OpenAPI v2 or v3. It is
	// called, possibly concurrently, whenever a document is built; the result is
	// not retained. It may be nil.
	Schemas func(v2 bool) (map[string]Schema, error)
}

// Schema is the schema of a kind that is not built in. It refers to other models
// of the part, or built-in ones, under #/components/schemas/ in v3 and
// #/definitions/ in v2.
type Schema struct {
	// Kind is the kind of the schema, empty if it is only referred to. ListOf is
	// the kind of the elements, if Kind is a list.
	Kind, ListOf string
	// JSON is the schema.
	JSON []byte
	// Uses are the names of the models that the schema refers to.
	Uses []string
}

// path returns the path of the part's v3 document below /openapi/v3/, which is
// that of the group version below /.
func (p *Part) path() string {
	if p.GroupVersion.Group == "" {
		return "api/" + p.GroupVersion.Version
	}
	return "apis/" + p.GroupVersion.Group + "/" + p.GroupVersion.Version
}
