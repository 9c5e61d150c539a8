// Package controlplanes contains the API controlplanes.mainstay.dev: isolated Kubernetes APIs in one
// server. Its schema is the CustomResourceDefinition in definition.json.
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

// Resource returns the resource of control planes.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "mainstay.dev", Version: "v1", Resource: "controlplanes"}
}

// Kind is the kind of control planes.
const Kind = "ControlPlane"

// AccessVerb is the verb that a user must be granted on a control plane to access it as an administrator.
const AccessVerb = "access"

// Finalizer delays the deletion of a control plane until its objects are deleted.
const Finalizer = "mainstay.dev/control-plane"

// Each key of a control plane in the store consists of KeyPrefix, the UID and one of these parts.
const (
	IdentityKey  = "identity" // the key of the authorities and the token key, encrypted like a Secret
	ObjectPrefix = "registry" // the prefix of the objects
	CopyKey      = "copy"     // the lock of the server that copies the objects of a fork's source
)

// TemplatesKey replaces the UID in the keys of the initial contents of control planes.
const TemplatesKey = "templates"

// KeyPrefix returns the prefix of the keys of all control planes, with a slash at its end. root is the
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
	// Paused rejects all requests.
	Paused bool   `json:"paused,omitempty"`
	Limits Limits `json:"limits,omitzero"`
	// From makes the control plane a fork; nil makes it empty. It is immutable.
	From *Source `json:"from,omitempty"`
}

// Source is the state with which a fork begins.
type Source struct {
	// ControlPlane is the name of the copied control plane; "" copies the root control plane.
	ControlPlane string `json:"controlPlane,omitempty"`
	// Time or ResourceVersion selects an earlier state; without both, the newest one is selected.
	Time            *metav1.Time `json:"time,omitempty"`
	ResourceVersion string       `json:"resourceVersion,omitempty"`
	// OutgoingCalls is the policy for calls of webhooks, aggregated API servers and kubelets; "" selects DenyCalls.
	OutgoingCalls CallPolicy `json:"outgoingCalls,omitempty"`
}

// CallPolicy determines whether a fork calls other servers.
type CallPolicy string

// The policies for outgoing calls.
const (
	DenyCalls  CallPolicy = "Deny"
	AllowCalls CallPolicy = "Allow"
)

// Limits are the limits of a control plane. The values 0 and nil set no limit.
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
	// KubeconfigSecretRef is the Secret with the administrator's kubeconfig.
	KubeconfigSecretRef *SecretReference `json:"kubeconfigSecretRef,omitempty"`
	// Objects and Bytes are the number and the size of the stored objects; nil if they are unknown.
	Objects *int64 `json:"objects,omitempty"`
	Bytes   *int64 `json:"bytes,omitempty"`
	// LastRequestTime is the time of the last request; nil without one.
	LastRequestTime *metav1.Time `json:"lastRequestTime,omitempty"`
	// WakeTime is the time at which a closed control plane opens, because one of its controllers has work
	// then; nil without such work.
	WakeTime *metav1.Time `json:"wakeTime,omitempty"`
	// SourceRevision is the resourceVersion of the source with which a fork began.
	SourceRevision string             `json:"sourceRevision,omitempty"`
	Conditions     []metav1.Condition `json:"conditions,omitempty"`
}

// SecretReference is the name of a Secret.
type SecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// FromUnstructured converts an object of the API to a ControlPlane. It returns an error if a field
// has another type. obj is not modified.
func FromUnstructured(obj *unstructured.Unstructured) (*ControlPlane, error) {
	var c ControlPlane
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &c); err != nil {
		return nil, fmt.Errorf("read the control plane %s: %w", obj.GetName(), err)
	}
	return &c, nil
}

// SetStatus replaces the status of an object of the API. It modifies obj.Object, and returns an
// error if status cannot be converted.
func SetStatus(obj *unstructured.Unstructured, status *Status) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encode the status of the control plane %s: %w", obj.GetName(), err)
	}
	obj.Object["status"] = content
	return nil
}
