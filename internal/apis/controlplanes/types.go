// Package controlplanes contains the types of the API controlplanes.mainstay.dev. A control plane is one of
// several isolated Kubernetes APIs in a server. The schema of the API is the CustomResourceDefinition in
// definition.json.
package controlplanes

import (
	_ "embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed definition.json
var definition string

// Definition returns the CustomResourceDefinition in JSON.
func Definition() []byte { return []byte(definition) }

// Resource returns the group, version and plural name of control planes.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "mainstay.dev", Version: "v1", Resource: "controlplanes"}
}

// Kind is the kind of control plane objects.
const Kind = "ControlPlane"

// AccessVerb is the verb that a user must be granted on a control plane to access it as an administrator.
const AccessVerb = "access"

// Finalizer delays the deletion of a control plane until the objects in the control plane are deleted.
const Finalizer = "mainstay.dev/control-plane"

// Each key of a control plane in the store begins with KeyPrefix, the UID of the control plane, and one of the
// following parts.
const (
	IdentityKey  = "identity" // the keys and certificates of the control plane, encrypted like a Secret
	ObjectPrefix = "registry" // the prefix of the keys of the objects in the control plane
	CopyKey      = "copy"     // the lock that a server holds while it copies the objects of a fork's source
)

// TemplatesKey takes the position of the UID in the keys of templates, which contain the initial objects of
// control planes.
const TemplatesKey = "templates"

// KeyPrefix returns the common prefix of the keys of all control planes, which ends with a slash. root is the
// prefix of the root control plane, such as /registry.
func KeyPrefix(root string) string { return "/" + strings.Trim(root, "/") + ".controlplanes/" }

// ControlPlane is an isolated Kubernetes API.
type ControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state of a control plane.
type Spec struct {
	// Paused makes the control plane reject all requests.
	Paused bool   `json:"paused,omitempty"`
	Limits Limits `json:"limits,omitzero"`
	// From makes the control plane a fork of another one. If it is nil, the control plane begins empty. It is
	// immutable.
	From *Source `json:"from,omitempty"`
}

// Source specifies the state with which a fork begins.
type Source struct {
	// ControlPlane is the name of the control plane to copy; "" selects the root control plane.
	ControlPlane string `json:"controlPlane,omitempty"`
	// Time or ResourceVersion selects an earlier state. If neither is set, the newest state is copied.
	Time            *metav1.Time `json:"time,omitempty"`
	ResourceVersion string       `json:"resourceVersion,omitempty"`
	// OutgoingCalls is the policy for calls to webhooks, aggregated API servers and kubelets; "" means
	// DenyCalls.
	OutgoingCalls CallPolicy `json:"outgoingCalls,omitempty"`
}

// CallPolicy determines whether a fork calls other servers.
type CallPolicy string

// The policies for outgoing calls.
const (
	DenyCalls  CallPolicy = "Deny"
	AllowCalls CallPolicy = "Allow"
)

// Limits limits the stored objects and the requests of a control plane. 0 and nil mean no limit, except that
// ConcurrentRequests has a default.
type Limits struct {
	Objects            int64              `json:"objects,omitempty"`
	Bytes              *resource.Quantity `json:"bytes,omitempty"`
	Watches            int32              `json:"watches,omitempty"`
	RequestsPerSecond  int32              `json:"requestsPerSecond,omitempty"`
	ConcurrentRequests int32              `json:"concurrentRequests,omitempty"`
}

// Phase summarizes the state of a control plane.
type Phase string

// The phases of a control plane.
const (
	Pending     Phase = "Pending"
	Ready       Phase = "Ready"
	Paused      Phase = "Paused"
	Terminating Phase = "Terminating"
)

// ConditionReady is the type of the condition that reports whether the control plane serves requests.
const ConditionReady = "Ready"

// Status is the observed state of a control plane.
type Status struct {
	Phase Phase `json:"phase,omitempty"`
	// URL is the URL of the API.
	URL string `json:"url,omitempty"`
	// KubeconfigSecretRef refers to the Secret that contains the administrator's kubeconfig.
	KubeconfigSecretRef *SecretReference `json:"kubeconfigSecretRef,omitempty"`
	// Objects and Bytes are the number of stored objects and their total size in bytes, or nil if they are
	// unknown.
	Objects *int64 `json:"objects,omitempty"`
	Bytes   *int64 `json:"bytes,omitempty"`
	// LastRequestTime is the time of the last request, or nil if there was none.
	LastRequestTime *metav1.Time `json:"lastRequestTime,omitempty"`
	// WakeTime is the time at which a closed control plane opens again because one of its controllers has work
	// at that time. It is nil if no controller has such work.
	WakeTime *metav1.Time `json:"wakeTime,omitempty"`
	// SourceRevision is the resourceVersion of the source at which a fork was copied.
	SourceRevision string             `json:"sourceRevision,omitempty"`
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
}

// SecretReference identifies a Secret.
type SecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// FromUnstructured converts an object of the API to a ControlPlane. It returns an error if a field has an
// unexpected type. obj is not modified.
func FromUnstructured(obj *unstructured.Unstructured) (*ControlPlane, error) {
	var c ControlPlane
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &c); err != nil {
		return nil, fmt.Errorf("read the control plane %s: %w", obj.GetName(), err)
	}
	return &c, nil
}

// SetStatus replaces the status of an object of the API. It modifies obj.Object. It returns an error if status
// cannot be converted.
func SetStatus(obj *unstructured.Unstructured, status *Status) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encode the status of the control plane %s: %w", obj.GetName(), err)
	}
	obj.Object["status"] = content
	return nil
}
