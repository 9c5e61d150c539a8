package rest

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
)

// Resource is a resource or subresource in one API version. It is immutable once it is in a catalog,
// except for FieldManager.
type Resource struct {
	// GroupVersion, Name (the plural) and Subresource (the path segment after the name of an object;
	// "" for the resource itself) are the names in the path.
	GroupVersion      schema.GroupVersion
	Name, Subresource string
	Singular          string
	ShortNames        []string
	Categories        []string
	Namespaced        bool

	// Kind is the kind to which Version belongs: the stored kind or, for a subresource that writes a part of
	// the stored object, the kind of the subresource (such as Scale). If Kind is nil, writes do not record
	// managed fields.
	Kind *codec.Kind
	// Version is the version of request and response bodies. The kind and group of a subresource
	// may differ from those of its parent, as for Scale.
	Version *codec.Version
	// StorageVersionHash is the hash in discovery documents. It is empty for resources that are not
	// stored.
	StorageVersionHash string

	// Storage serves the requests. The interfaces that it implements determine the verbs.
	Storage Storage
	// WithoutVerbs are verbs that are not served although Storage implements them.
	WithoutVerbs []string
	// ReturnDeleted makes a completed deletion return the last state of the object instead of a
	// Status.
	ReturnDeleted bool
	// Custom reports whether a CustomResourceDefinition defines the resource. Some requests and
	// errors differ from those of built-in resources.
	Custom bool
	// Table converts objects to Tables; nil selects the columns name and age.
	Table TableConvertor
	// WithoutTable reports whether the resource has no Table form. Requests that accept only Tables then fail
	// with 406.
	WithoutTable bool
	// FieldLabel translates a key of a field selector in this version into a key of
	// codec.Kind.Fields, or returns an error. nil permits metadata.name and metadata.namespace
	// only.
	FieldLabel func(label, value string) (string, string, error)
	// ResetFields are the fields that writes to this resource ignore, by API version. They are not
	// recorded in managed fields.
	ResetFields map[fieldpath.APIVersion]*fieldpath.Set
	// TypeConverter contains the merge schemas of Kind; nil selects the schemas of the built-in kinds.
	TypeConverter managedfields.TypeConverter
	// Warning is the deprecation warning of every response; empty if there is none.
	Warning string
	// RemovedRelease is the Kubernetes release that removes a deprecated resource, such as 1.35;
	// empty if unknown.
	RemovedRelease string

	// FieldManager caches the field manager of the resource, an *apply.Manager that package
	// endpoints/apply creates on first use and guards with its own lock. A cache outside the resource
	// would retain the resources of deleted definitions, because a field manager refers to its
	// resource.
	FieldManager any
}

// FullName returns the name with the subresource, for example "pods/status".
func (r *Resource) FullName() string {
	if r.Subresource == "" {
		return r.Name
	}
	return r.Name + "/" + r.Subresource
}

// GroupResource returns the group and name, without the subresource. API errors identify the
// resource in this form.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.GroupVersion.Group, Resource: r.Name}
}

// GVR returns the group, version and name, without the subresource.
func (r *Resource) GVR() schema.GroupVersionResource {
	return r.GroupVersion.WithResource(r.Name)
}

// Verb describes a Kubernetes verb and the HTTP requests for it.
type Verb struct {
	// Name is the verb in discovery and authorization, such as deletecollection.
	Name string
	// Action is the verb in the list of routes and in metrics, such as WATCHLIST.
	Action string
	// Methods are the HTTP methods.
	Methods []string
	// Item reports whether the path contains the name of an object.
	Item bool
	// AllNamespaces reports whether the verb of a namespaced resource is also served without a
	// namespace.
	AllNamespaces bool
	// supportedBy reports whether a storage implements the verb.
	supportedBy func(Storage) bool
}

func implements[T any](s Storage) bool { _, ok := s.(T); return ok }

// verbs contains all verbs in the order of the route table. Discovery, documentation and the list
// of routes determine the verbs of a storage only from this table.
var verbs = [...]Verb{
	{Name: "list", Action: "LIST", Methods: []string{http.MethodGet}, AllNamespaces: true, supportedBy: implements[Lister]},
	{Name: "create", Action: "POST", Methods: []string{http.MethodPost}, supportedBy: implements[Creater]},
	{Name: "deletecollection", Action: "DELETECOLLECTION", Methods: []string{http.MethodDelete}, supportedBy: implements[CollectionDeleter]},
	{Name: "watch", Action: "WATCHLIST", Methods: []string{http.MethodGet}, AllNamespaces: true, supportedBy: implements[Watcher]},
	{Name: "get", Action: "GET", Methods: []string{http.MethodGet}, Item: true, supportedBy: implements[Getter]},
	{Name: "create", Action: "POST", Methods: []string{http.MethodPost}, Item: true, supportedBy: implements[NamedCreater]},
	{Name: "update", Action: "PUT", Methods: []string{http.MethodPut}, Item: true, supportedBy: implements[Updater]},
	{Name: "patch", Action: "PATCH", Methods: []string{http.MethodPatch}, Item: true, supportedBy: func(s Storage) bool {
		return implements[Updater](s) && implements[Getter](s)
	}},
	{Name: "delete", Action: "DELETE", Methods: []string{http.MethodDelete}, Item: true, supportedBy: implements[GracefulDeleter]},
	{Name: "watch", Action: "WATCH", Methods: []string{http.MethodGet}, Item: true, supportedBy: implements[Watcher]},
}

// Verbs returns the served verbs, in the order of the route table. A verb can occur several times,
// with different paths. The caller owns the slice.
func (r *Resource) Verbs() []Verb {
	var served []Verb
	for _, v := range verbs {
		if v.supportedBy(r.Storage) && !slices.Contains(r.WithoutVerbs, v.Name) && v.Item == (r.Subresource != "" || v.Item) {
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

// VerbNames returns the verbs for discovery, sorted and without duplicates. For custom resources, the verbs are
// in kube-apiserver's order instead. The caller owns the slice.
func (r *Resource) VerbNames() []string {
	if r.Custom && r.Subresource == "" {
		// Custom resources have all verbs until the definition is deleted.
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
