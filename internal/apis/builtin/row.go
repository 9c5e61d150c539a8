// Package builtin declares the built-in resources of Kubernetes. Each resource is declared by a Row, which
// contains its names, its scope, and hooks for its differences from other resources. The subfolder of an API
// group contains the rows of the group. This package converts rows into REST storage.
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

// Entry declares a resource of a group. It is the result of Resource or InternalResource, or a Virtual.
type Entry interface {
	// build creates the resource and its subresources.
	build(env *Env, gv schema.GroupVersion) []*rest.Resource
	// versions returns all versions in which the resource can be served. The result includes gv.
	versions(gv schema.GroupVersion) []schema.GroupVersion
	// stored returns the storage path of the objects and the name of the resource. Both are "" if objects are
	// not stored.
	stored() (path, name string)
}

// Row declares a kind whose objects are stored. O is a pointer to its type in the hub version, which is the
// version of the Group. The zero value of each field is the common case.
//
// Hooks may be called concurrently. They may modify the new object, but not the old one, and must not retain
// their arguments.
type Row[O codec.Object] struct {
	Names      Names
	Namespaced bool
	// Gate is the feature gate that the resource requires, or "" if it requires none.
	Gate feature.Gate

	Versions    Versions
	Storage     Storage
	WritePolicy WritePolicy
	Strategy    Strategy[O]
	// Status adds the /status subresource. It is nil for kinds without this subresource.
	Status         *Status[O]
	Deletion       Deletion[O]
	FieldSelectors FieldSelectors[O]
	// Columns describes the table columns. If it is nil, tables show the name and age.
	Columns *Columns[O]
	// Subresources contains all subresources except status.
	Subresources []Subresource
}

// Names contains the names of a resource. Its singular name is the kind in lower case.
type Names struct {
	Plural, Kind string
	ShortNames   []string
	Categories   []string
}

// Versions describes the versions in which a resource is served.
type Versions struct {
	// Deprecated is the minor Kubernetes version that deprecated the Group's version of the resource, or 0 if
	// that version is not deprecated.
	Deprecated int
	// Warning is sent to all clients that use the Group's version of the resource. It replaces the warning for
	// Deprecated.
	Warning string
	// Others contains the versions of the resource other than the Group's version.
	Others []Version
}

// Version describes an additional version of a resource, other than the Group's version.
type Version struct {
	// Conversion converts objects to and from the hub version. If it is nil, both versions have the same
	// fields, and GroupVersion specifies the group and version.
	Conversion   *codec.Version
	GroupVersion schema.GroupVersion
	// ConvertLabel replaces FieldSelectors.ConvertLabel of the row for this version, unless it is nil.
	ConvertLabel FieldLabelFunc
	// Deprecated is the minor Kubernetes version that deprecated this version, or 0 if it is not deprecated.
	Deprecated int
	// Successor is the version that the deprecation warning recommends, or "" if it recommends none.
	Successor string
}

// codec returns the codec of the version. hub is the codec of the Group's version.
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
	// Path is the path of the objects, relative to the storage prefix. "" selects the plural name.
	Path string
	// Version is the version in which objects are encoded, if it differs from the Group's version. Both
	// versions must have the same protobuf message.
	Version schema.GroupVersion
	// HashedVersion is the version from which the storageVersionHash in discovery is computed, if it differs
	// from the version in which objects are encoded.
	HashedVersion schema.GroupVersion
	// JSON specifies that objects are stored as JSON, although they have a protobuf encoding.
	JSON bool
	// ReadableVersions contains additional versions from which stored objects can be decoded. They are not
	// served.
	ReadableVersions []*codec.Version
	// SharedVersion is the version in which objects are encoded if kube-apiserver uses the same storage. It
	// must be an element of ReadableVersions. nil selects the usual version.
	SharedVersion *codec.Version
	// TTL returns the lifetime of an object after each write. Objects do not expire if TTL is nil or returns
	// 0.
	TTL TTLFunc
}

// WritePolicy contains the write settings of a resource that do not require hooks.
type WritePolicy struct {
	// Generation enables metadata.generation, which is 1 on creation and is incremented by each update for
	// which Strategy.SpecChanged returns true.
	Generation bool
	// GenerationGate is the feature gate that Generation requires, or "" if it requires none.
	GenerationGate feature.Gate
	// AllowCreateOnUpdate specifies that a PUT of a missing object creates it.
	AllowCreateOnUpdate bool
	// RequireResourceVersion specifies that a PUT without metadata.resourceVersion is rejected.
	RequireResourceVersion bool
	// ReturnDeletedObject specifies that a deletion returns the deleted object instead of a metav1.Status.
	ReturnDeletedObject bool
	// AllowAnyFinalizer specifies that new finalizers are accepted even if they do not have a domain.
	AllowAnyFinalizer bool
	// DisabledVerbs contains the verbs that the resource does not support although its storage implements
	// them.
	DisabledVerbs []string
	// ExpensiveValidation specifies that the validation of an object takes milliseconds. Env.ValidationLimiter
	// then limits the number of concurrent validations.
	ExpensiveValidation bool
	// ValidateName returns the problems of a name or, if prefix is set, of a generateName. If ValidateName is
	// nil, names must be DNS subdomains.
	ValidateName func(name string, prefix bool) []string
	// ExactGenerateName specifies that generateName is used as the name, without a random suffix.
	ExactGenerateName bool
}

// FieldSelectors declares the field selectors that a kind supports in addition to metadata.name and
// metadata.namespace. The zero value declares no selectors.
type FieldSelectors[O codec.Object] struct {
	// Keys contains the supported keys. Values returns the value of each key.
	Keys   []string
	Values func(obj O) fields.Set
	// Indexed contains those Keys that are indexed, for watches that select one value.
	Indexed []string
	// ConvertLabel replaces the default check that a key is listed in Keys. It is set for kinds that have
	// legacy keys or other error messages; otherwise it is nil.
	ConvertLabel FieldLabelFunc
}

// FieldLabelFunc converts the key and value of a field selector to those of the hub version. It returns an
// error for an unsupported key.
type FieldLabelFunc func(label, value string) (string, string, error)
