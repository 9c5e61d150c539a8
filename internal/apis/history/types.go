// Package history implements the API group history.mainstay.dev. It serves the changes of objects with the
// time, the user and the changed fields, and reads them from an archive (see storage/archive). The API is
// read-only.
package history

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GroupVersion returns the group and version of the API.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "history.mainstay.dev", Version: "v1"}
}

// Resource is the plural name of changes.
const Resource = "changes"

// Operation is the kind of a change: Created, Updated or Deleted.
type Operation string

// The operations.
const (
	Created Operation = "Created"
	Updated Operation = "Updated"
	Deleted Operation = "Deleted"
)

// Change is one change of one object. It is in the namespace of the object.
type Change struct {
	metav1.TypeMeta `json:",inline"`
	// ObjectMeta contains the labels of the object. Its creationTimestamp is the time of the change, and its
	// name begins with the revision.
	metav1.ObjectMeta `json:"metadata"`

	Object    ObjectReference `json:"object"`
	Operation Operation       `json:"operation"`
	// Revision is the resourceVersion of the object after the change, or the revision of its deletion.
	// PreviousRevision is the resourceVersion of the object before the change. It is "" if the object did not
	// exist, or if its resourceVersion is no longer known.
	Revision         string `json:"revision"`
	PreviousRevision string `json:"previousRevision,omitempty"`

	// User is the user whose permissions applied. ImpersonatedBy is the authenticated user if that user
	// impersonated User. These fields and the following ones up to AuditID are empty if the server recorded no
	// history at that time, if another server wrote the object, or if the object expired.
	User           string `json:"user,omitempty"`
	ImpersonatedBy string `json:"impersonatedBy,omitempty"`
	// Verb and Subresource describe the request that made the change.
	Verb         string `json:"verb,omitempty"`
	Subresource  string `json:"subresource,omitempty"`
	FieldManager string `json:"fieldManager,omitempty"`
	UserAgent    string `json:"userAgent,omitempty"`
	AuditID      string `json:"auditID,omitempty"`

	// Fields are the paths of the changed fields of an update, such as spec.replicas. Managed fields and
	// other metadata that the server changes are omitted.
	Fields []string `json:"fields,omitempty"`
	// FieldsTruncated is set if more than MaxFields fields have changed.
	FieldsTruncated bool `json:"fieldsTruncated,omitempty"`

	// Before and After are the states of the object before and after the change, in the storage version. They
	// are nil if the object did not exist or the state is not available. Lists and watches omit them, unless a
	// field selector selects one change by metadata.name.
	Before map[string]any `json:"before,omitempty"`
	After  map[string]any `json:"after,omitempty"`
}

// ObjectReference identifies the changed object, which is in the namespace of the Change.
type ObjectReference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Resource is the plural name of the resource and the group, such as deployments.apps.
	Resource string    `json:"resource"`
	Name     string    `json:"name"`
	UID      types.UID `json:"uid,omitempty"`
}

// GroupResource returns the parsed Resource.
func (o *ObjectReference) GroupResource() schema.GroupResource {
	return schema.ParseGroupResource(o.Resource)
}

// MaxFields is the maximum number of elements in Change.Fields.
const MaxFields = 100

// field returns the value of a field that field selectors can use. ok is false for other names.
func (c *Change) field(name string) (value string, ok bool) {
	switch name {
	case "metadata.name":
		return c.Name, true
	case "metadata.namespace":
		return c.Namespace, true
	case "object.resource":
		return c.Object.Resource, true
	case "object.name":
		return c.Object.Name, true
	case "object.uid":
		return string(c.Object.UID), true
	case "operation":
		return string(c.Operation), true
	case "user":
		return c.User, true
	case "impersonatedBy":
		return c.ImpersonatedBy, true
	case "verb":
		return c.Verb, true
	case "fieldManager":
		return c.FieldManager, true
	}
	return "", false
}

// Fields of field selectors that limit the time of changes.
const (
	sinceField = "since"
	untilField = "until"
)

// encode sets the type of a change and returns the change as JSON.
func (c *Change) encode() ([]byte, error) {
	c.APIVersion, c.Kind = GroupVersion().String(), "Change"
	return json.Marshal(c)
}

// summary returns the first changed fields, for a table cell.
func (c *Change) summary() string {
	const most = 3
	if len(c.Fields) <= most && !c.FieldsTruncated {
		return strings.Join(c.Fields, ",")
	}
	return strings.Join(c.Fields[:min(most, len(c.Fields))], ",") + ",..."
}
