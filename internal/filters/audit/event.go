// Package audit records who asked what of a server, and what came of it: policies,
// which say what of which requests is recorded, events, and the backends that take
// them, a log file and a webhook. Types, file formats and messages are those of
// audit.k8s.io/v1. Which requests there are, and when their stages begin, is up to
// filters.Audit; what handlers know of them is recorded in a request.Audit.
package audit

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion of policies and events.
const APIVersion = "audit.k8s.io/v1"

// Level is how much of a request is recorded.
type Level string

// The levels; each includes those before it.
const (
	LevelNone            Level = "None"
	LevelMetadata        Level = "Metadata"        // who asked what, and the code of the response
	LevelRequest         Level = "Request"         // and the body of the request
	LevelRequestResponse Level = "RequestResponse" // and the body of the response
)

// Stage is how far a request has come.
type Stage string

// The stages.
const (
	StageRequestReceived  Stage = "RequestReceived"
	StageResponseStarted  Stage = "ResponseStarted" // of long-running requests, and of those refused before they have a user
	StageResponseComplete Stage = "ResponseComplete"
	StagePanic            Stage = "Panic"
)

// Event is what is recorded of a request at a stage.
type Event struct {
	metav1.TypeMeta `json:",inline"`

	Level   Level  `json:"level"`
	AuditID string `json:"auditID"`
	Stage   Stage  `json:"stage"`

	RequestURI             string                  `json:"requestURI"`
	Verb                   string                  `json:"verb"`
	User                   User                    `json:"user"` // who was authenticated
	ImpersonatedUser       *User                   `json:"impersonatedUser,omitempty"`
	AuthenticationMetadata *AuthenticationMetadata `json:"authenticationMetadata,omitempty"`
	SourceIPs              []string                `json:"sourceIPs,omitempty"`
	UserAgent              string                  `json:"userAgent,omitempty"`
	ObjectRef              *ObjectReference        `json:"objectRef,omitempty"`
	ResponseStatus         *metav1.Status          `json:"responseStatus,omitempty"`

	// RequestObject and ResponseObject are made by Body.
	RequestObject  json.RawMessage `json:"requestObject,omitempty"`
	ResponseObject json.RawMessage `json:"responseObject,omitempty"`

	RequestReceivedTimestamp metav1.MicroTime `json:"requestReceivedTimestamp"`
	StageTimestamp           metav1.MicroTime `json:"stageTimestamp"`

	Annotations map[string]string `json:"annotations,omitempty"`
}

// User is a user in an event.
type User struct {
	Username string              `json:"username,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// AuthenticationMetadata is how the user came to be.
type AuthenticationMetadata struct {
	// ImpersonationConstraint is the verb by which impersonation was allowed, if it
	// limits what may be done.
	ImpersonationConstraint string `json:"impersonationConstraint,omitempty"`
}

// ObjectReference is what was asked for.
type ObjectReference struct {
	Resource        string `json:"resource,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	APIGroup        string `json:"apiGroup,omitempty"`
	APIVersion      string `json:"apiVersion,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Subresource     string `json:"subresource,omitempty"`
}

// EventList is what webhooks get.
type EventList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Event `json:"items"`
}
