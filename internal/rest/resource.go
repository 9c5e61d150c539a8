package rest

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
)

// Resource is one resource or subresource as served in one API version. Except for
// FieldManager, it is immutable once it is in the catalog.
type Resource struct {
	// GroupVersion is where it is served, Name the plural, Subresource the path
	// segment after an object's name, empty for the resource itself.
	GroupVersion      schema.GroupVersion
	Name, Subresource string
	Singular          string
	ShortNames        []string
	Categories        []string
	Namespaced        bool

	// Kind is the kind of Version with managed fields: the stored kind, or the kind of a
	// subresource that writes a part of it (Scale). It is nil for resources that are not stored.
	Kind *codec.Kind
	// Version is how request and response bodies look. For a subresource it may
	// be of another kind and group than its parent's (a Scale).
	Version *codec.Version
	// StorageVersionHash is shown in discovery. It is empty for resources that are not stored.
	StorageVersionHash string

	// Storage serves the requests. The interfaces that it implements determine the verbs.
	Storage Storage
	// WithoutVerbs are withheld although Storage could do them.
	WithoutVerbs []string
	// ReturnDeleted makes a completed deletion return the last state of the object instead of a
	// Status.
	ReturnDeleted bool
	// Custom reports that a CustomResourceDefinition defines the resource. Some requests and errors
	// differ from built-in resources.
	Custom bool
	// Table converts to Tables; nil selects the columns name and age.
	Table TableConvertor
	// WithoutTable reports that the resource has no Table form: a request that accepts no other
	// form gets 406.
	WithoutTable bool
	// FieldLabel translates a key of a field selector in this version into a key of
	// codec.Kind.Fields, or returns an error. nil permits metadata.name and metadata.namespace
	// only.
	FieldLabel func(label, value string) (string, string, error)
	// ResetFields are the fields that writes to this resource ignore, by API version. Managers do
	// not own them.
	ResetFields map[fieldpath.APIVersion]*fieldpath.Set
	// TypeConverter has the merge schemas of Kind; nil selects those of built-in kinds.
	TypeConverter managedfields.TypeConverter
	// Warning, where not empty, is sent with every response: a deprecation.
	Warning string
	// RemovedRelease is the Kubernetes release that removes a deprecated resource, such as 1.35;
	// empty if unknown.
	RemovedRelease string

	// FieldManager caches the field manager of the resource, an *apply.Manager that package
	// endpoints/apply creates on first use and guards by a lock of its own. It refers to
	// the resource, so a cache elsewhere would keep the resources of deleted
	// definitions in memory.
	FieldManager any
}

// FullName is the name with its subresource, as in "pods/status".
func (r *Resource) FullName() string {
	if r.Subresource == "" {
		return r.Name
	}
	return r.Name + "/" + r.Subresource
}

// GroupResource names the resource in errors.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.GroupVersion.Group, Resource: r.Name}
}

// GVR is the resource with its version.
func (r *Resource) GVR() schema.GroupVersionResource {
	return r.GroupVersion.WithResource(r.Name)
}

// Verb is a Kubernetes verb and how it is requested over HTTP.
type Verb struct {
	// Name as in discovery and authorization.
	Name string
	// Action as in the list of routes and in metrics.
	Action string
	// Methods of HTTP.
	Methods []string
	// Item reports that the path contains the name of an object.
	Item bool
	// AllNamespaces reports that the verb of a namespaced resource is also served without a
	// namespace.
	AllNamespaces bool
	// can reports whether storage has the capability.
	can func(Storage) bool
}

func implements[T any](s Storage) bool { _, ok := s.(T); return ok }

// verbs are all verbs in the order of the route table. This is the one place
// that tests which interfaces a storage implements.
var verbs = [...]Verb{
	{Name: "list", Action: "LIST", Methods: []string{http.MethodGet}, AllNamespaces: true, can: implements[Lister]},
	{Name: "create", Action: "POST", Methods: []string{http.MethodPost}, can: implements[Creater]},
	{Name: "deletecollection", Action: "DELETECOLLECTION", Methods: []string{http.MethodDelete}, can: implements[CollectionDeleter]},
	{Name: "watch", Action: "WATCHLIST", Methods: []string{http.MethodGet}, AllNamespaces: true, can: implements[Watcher]},
	{Name: "get", Action: "GET", Methods: []string{http.MethodGet}, Item: true, can: implements[Getter]},
	{Name: "create", Action: "POST", Methods: []string{http.MethodPost}, Item: true, can: implements[NamedCreater]},
	{Name: "update", Action: "PUT", Methods: []string{http.MethodPut}, Item: true, can: implements[Updater]},
	{Name: "patch", Action: "PATCH", Methods: []string{http.MethodPatch}, Item: true, can: func(s Storage) bool {
		return implements[Updater](s) && implements[Getter](s)
	}},
	{Name: "delete", Action: "DELETE", Methods: []string{http.MethodDelete}, Item: true, can: implements[GracefulDeleter]},
	{Name: "watch", Action: "WATCH", Methods: []string{http.MethodGet}, Item: true, can: implements[Watcher]},
}

// Verbs returns the verbs of the resource, in the order of the route table.
func (r *Resource) Verbs() []Verb {
	var served []Verb
	for _, v := range verbs {
		if v.can(r.Storage) && !slices.Contains(r.WithoutVerbs, v.Name) && v.Item == (r.Subresource != "" || v.Item) {
			served = append(served, v)
		}
	}
	if c, ok := r.Storage.(Connecter); ok {
		connection := c.Connection()
		action := "CONNECT"
		if connection.Text {
			action = "GET"
		}
		for _, method := range connection.Methods {
			if name := connectVerb(method); name != "" {
				served = append(served, Verb{Name: name, Action: action, Methods: []string{method}, Item: true})
			}
		}
	}
	return served
}

// connectVerb returns the authorization verb of a request to a Connecter, or "" for an unsupported
// method.
func connectVerb(method string) string {
	switch method {
	case http.MethodGet:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// VerbNames returns the verbs as discovery lists them: sorted, each once.
func (r *Resource) VerbNames() []string {
	if r.Version != nil && r.Version.Untyped && r.Subresource == "" {
		// Custom resources have them all, until the definition is being deleted;
		// the order is kube-apiserver's.
		all := []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
		return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(r.WithoutVerbs, name) })
	}
	var names []string
	for _, v := range r.Verbs() {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
