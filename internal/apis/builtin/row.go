// Package builtin declares the built-in resources of Kubernetes. A resource is a Row: its names and
// scope, and hooks for its differences from other resources. The subfolder of an API group contains
// its rows. This package converts rows into REST storage.
package builtin

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
)

// Group is one version of an API group.
type Group struct {
	GroupVersion schema.GroupVersion
	Resources    []Entry
}

// Entry is a resource of a group: the result of Resource or InternalResource, or a Virtual.
type Entry interface {
	// build creates the resource and its subresources.
	build(env *Env, gv schema.GroupVersion) []*rest.Resource
	// versions returns the versions in which the resource can be served, including gv.
	versions(gv schema.GroupVersion) []schema.GroupVersion
	// stored returns the storage path of the objects and the name of the resource; "" if objects
	// are not stored.
	stored() (path, name string)
}

// Row declares one kind of stored object. O is a pointer to its type in the hub version, which is
// the version of the Group. The zero value of each field is the common case.
//
// Hooks may be called concurrently. They may modify the new object, but not the old one, and must
// not retain their arguments.
type Row[O codec.Object] struct {
	Names      Names
	Namespaced bool
	// Gate is the feature gate that the resource requires; "" if it requires none.
	Gate feature.Gate

	Versions    Versions
	Storage     Storage
	WritePolicy WritePolicy
	Strategy    Strategy[O]
	// Status adds the subresource /status; nil for kinds without it.
	Status         *Status[O]
	Deletion       Deletion[O]
	FieldSelectors FieldSelectors[O]
	// Columns are the columns of tables; nil shows name and age.
	Columns *Columns[O]
	// Subresources are the subresources besides status.
	Subresources []Subresource
}

// Names are the names of a resource. Its singular name is the kind in lower case.
type Names struct {
	Plural, Kind string
	ShortNames   []string
	Categories   []string
}

// Versions describes the versions in which a resource is served.
type Versions struct {
	// Deprecated is the minor version of Kubernetes that deprecated the resource in the Group's
	// version; 0 if it is not deprecated.
	Deprecated int
	// Warning is sent to all clients of the resource in the Group's version, instead of the warning
	// for Deprecated.
	Warning string
	// Others are the versions of the resource besides the Group's version.
	Others []Version
}

// Version is a version of a resource besides the Group's version.
type Version struct {
	// Conversion converts objects to and from the hub version; nil if both have the same fields.
	// GroupVersion is then the version.
	Conversion   *codec.Version
	GroupVersion schema.GroupVersion
	// ConvertLabel overrides FieldSelectors.ConvertLabel of the row for this version; nil does not
	// override it.
	ConvertLabel FieldLabelFunc
	// Deprecated is the minor version of Kubernetes that deprecated this version; 0 if it is not
	// deprecated.
	Deprecated int
	// Successor is the version that the deprecation warning recommends; "" recommends no version.
	Successor string
}

// codec returns the codec of the version. hub is the Group's version.
func (v *Version) codec(hub *codec.Version) *codec.Version {
	if v.Conversion == nil {
		return relabelled(hub, v.GroupVersion)
	}
	return v.Conversion
}

func (v *Version) groupVersion() schema.GroupVersion {
	if v.Conversion == nil {
		return v.GroupVersion
	}
	return v.Conversion.GVK.GroupVersion()
}

// Storage describes how objects are stored.
type Storage struct {
	// Path is the path of the objects below the storage prefix; "" selects the plural name.
	Path string
	// Version is the version in which objects are encoded, if it is not the Group's version. Both
	// must have the same protobuf message.
	Version schema.GroupVersion
	// HashedVersion is the version of the storageVersionHash in discovery, if it is not the version
	// in which objects are encoded.
	HashedVersion schema.GroupVersion
	// JSON stores objects as JSON, although they have a protobuf encoding.
	JSON bool
	// ReadableVersions are additional versions in which stored objects can be decoded. They are not
	// served.
	ReadableVersions []*codec.Version
	// SharedVersion is the element of ReadableVersions in which objects are encoded if
	// kube-apiserver uses the same storage; nil if it is the usual version.
	SharedVersion *codec.Version
	// TTL returns the lifetime of an object after each write; nil or 0 if objects do not expire.
	TTL TTLFunc
}

// WritePolicy has the rules for writes of a resource that need no code.
type WritePolicy struct {
	// Generation enables metadata.generation: 1 on creation, incremented by each update for which
	// Strategy.SpecChanged returns true.
	Generation bool
	// GenerationGate is the feature gate that Generation requires; "" enables it always.
	GenerationGate feature.Gate
	// AllowCreateOnUpdate lets PUT create a missing object.
	AllowCreateOnUpdate bool
	// RequireResourceVersion rejects a PUT without metadata.resourceVersion.
	RequireResourceVersion bool
	// ReturnDeletedObject returns the deleted object instead of a metav1.Status.
	ReturnDeletedObject bool
	// AllowAnyFinalizer accepts new finalizers without a domain.
	AllowAnyFinalizer bool
	// DisabledVerbs are verbs that the resource does not have although its storage implements them.
	DisabledVerbs []string
	// ExpensiveValidation reports that the validation of an object takes milliseconds.
	// Env.ValidationLimiter limits the number of concurrent validations.
	ExpensiveValidation bool
	// ValidateName returns the errors of a name or, if prefix is set, of a generateName; nil
	// requires DNS subdomains.
	ValidateName func(name string, prefix bool) []string
	// ExactGenerateName uses generateName as the name, without a random suffix.
	ExactGenerateName bool
}

// FieldSelectors declares the field selectors of a kind besides metadata.name and metadata.namespace. The
// zero value declares no selectors.
type FieldSelectors[O codec.Object] struct {
	// Keys are the supported keys, and Values returns their values.
	Keys   []string
	Values func(obj O) fields.Set
	// Indexed are the Keys that have an index for watches that select one value.
	Indexed []string
	// ConvertLabel replaces the check of keys against Keys, for kinds with older keys or other error
	// messages; may be nil.
	ConvertLabel FieldLabelFunc
}

// FieldLabelFunc converts a key and value of a field selector to the key and value of the hub version. It
// returns an error for an unsupported key.
type FieldLabelFunc func(label, value string) (string, string, error)
