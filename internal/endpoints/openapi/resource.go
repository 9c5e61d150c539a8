package openapi

import "k8s.io/apimachinery/pkg/runtime/schema"

// Resource describes a resource or a subresource.
type Resource struct {
	// Name is the plural name in the URL, such as pods.
	Name string
	// Subresource is the name of the subresource, such as status; empty for the resource itself.
	Subresource string
	// Kind is the kind of the resource, even for a subresource. For pods/eviction, it is Pod.
	Kind string
	// Object is the kind of the objects in requests and responses. The zero value means Kind in the group
	// version of the part. For pods/eviction, Object is Eviction in policy/v1.
	Object     schema.GroupVersionKind
	Namespaced bool
	// Verbs are the supported verbs: create, delete, deletecollection, get, list, patch, update and
	// watch. A connect subresource has no verbs.
	Verbs []string
	// ReturnsDeleted reports whether delete returns the object instead of a Status.
	ReturnsDeleted bool
	// Connect are the HTTP methods, in upper case, of a connect subresource
	// such as pods/exec.
	Connect []string
	// ConnectPath reports whether the connect subresource accepts a path, like pods/proxy.
	ConnectPath bool
	// Options is the kind of the additional query parameters of get or connect, such as
	// PodLogOptions; empty if there are none.
	Options string
	// Text reports whether get returns text, like pods/log.
	Text bool
}

// Part describes a group version with its resources. It has its own v3 document, and is a part of
// the v2 document.
type Part struct {
	GroupVersion schema.GroupVersion
	Resources    []Resource
	// Describe replaces Resources if it is not nil. It is called, possibly concurrently, whenever a
	// document is built.
	Describe func() []Resource
	// Digest returns a digest of the complete description, so that an ETag can be computed without building
	// the document. If Digest is nil, the document of a part with Custom, Describe or Schemas must be built
	// to compute its ETag.
	Digest func() string
	// Custom reports whether the resources are custom resources, which have different media types and
	// parameters than built-in resources, and no document for their group.
	Custom bool
	// Schemas returns the schemas of kinds that are not built in and of their lists, by model name,
	// for OpenAPI v2 or v3. It is called, possibly concurrently, whenever a document is built. The
	// result is not modified. Schemas may be nil.
	Schemas func(v2 bool) (map[string]Schema, error)
}

// Schema is the schema of a kind that is not built in. References to other models of the part and
// to built-in models start with #/components/schemas/ in v3 and #/definitions/ in v2.
type Schema struct {
	// Kind is the kind of the schema; empty for a schema that other schemas refer to. ListOf is the
	// kind of the items if Kind is a list.
	Kind, ListOf string
	// JSON is the encoded schema. It is not modified.
	JSON []byte
	// Uses contains the names of the models that the schema refers to.
	Uses []string
}

// path returns the path of the part's v3 document below /openapi/v3/. It equals the path of the
// group version without the leading slash.
func (p *Part) path() string {
	if p.GroupVersion.Group == "" {
		return "api/" + p.GroupVersion.Version
	}
	return "apis/" + p.GroupVersion.Group + "/" + p.GroupVersion.Version
}
