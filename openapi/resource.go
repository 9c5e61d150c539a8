package openapi

import "k8s.io/apimachinery/pkg/runtime/schema"

// Resource is what the documents need to know of a resource or a subresource.
type Resource struct {
	// Name is the plural name in the URL: pods.
	Name string
	// Subresource is its name, such as status; empty for the resource itself.
	Subresource string
	// Kind is the kind of the resource, also for a subresource: Pod for
	// pods/eviction.
	Kind string
	// Object is the kind of the objects in requests and answers. The zero
	// value is Kind in the group version of the part; pods/eviction has
	// policy/v1, Eviction.
	Object     schema.GroupVersionKind
	Namespaced bool
	// Verbs are of create, delete, deletecollection, get, list, patch, update
	// and watch. A subresource that is connected to has none.
	Verbs []string
	// ReturnsDeleted says that delete answers with the object, not a Status.
	ReturnsDeleted bool
	// Connect are the HTTP methods, in capitals, of a subresource that is
	// connected to: pods/exec.
	Connect []string
	// ConnectPath says that more path may follow a subresource that is
	// connected to: pods/proxy.
	ConnectPath bool
	// Options is the kind of the query parameters of get or connect beyond
	// the common ones: PodLogOptions, PodExecOptions.
	Options string
	// Text says that get answers with text: pods/log.
	Text bool
}

// Part is a group version and the resources served in it. It becomes one v3
// document, and a share of the v2 document.
type Part struct {
	GroupVersion schema.GroupVersion
	Resources    []Resource
	// Describe, where not nil, returns the resources instead. It is called,
	// possibly concurrently, whenever a document is drawn.
	Describe func() []Resource
	// Digest, where not nil, identifies all that the part describes, so that
	// nothing has to be drawn to tell whether it is the same as before.
	Digest func() string
	// Custom says that the resources are custom ones: their media types and
	// some parameters differ, and the group is not described.
	Custom bool
	// Schemas returns the schemas by model name of kinds that are not built
	// in, among them that of each kind and its list, written for version 2 of
	// OpenAPI or 3. It is called, possibly concurrently, whenever a document is
	// drawn; nothing keeps the result. Nil stands for none.
	Schemas func(v2 bool) (map[string]Schema, error)
}

// Schema is the schema of a kind that is not built in. References name other
// models of the part, or built-in ones, under #/components/schemas/ in version 3
// and #/definitions/ in version 2.
type Schema struct {
	// Kind is the kind it describes, empty if it is only referred to. ListOf is
	// the kind whose lists that kind is, where it is one of lists.
	Kind, ListOf string
	// JSON is the schema.
	JSON []byte
	// Uses are the names of the models that the schema refers to.
	Uses []string
}

// path is the path of the part's v3 document below /openapi/v3/, and of the
// group version below /.
func (p *Part) path() string {
	if p.GroupVersion.Group == "" {
		return "api/" + p.GroupVersion.Version
	}
	return "apis/" + p.GroupVersion.Group + "/" + p.GroupVersion.Version
}
