// Package audit implements audit policies, audit events and the log and webhook backends. Types,
// file formats and messages are the same as in audit.k8s.io/v1. filters.Audit creates the events
// for the stages of a request. Handlers record data for the events in a request.Audit.
package audit

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion is the API version of policies and events.
const APIVersion = "audit.k8s.io/v1"

// Level specifies which parts of a request are recorded.
type Level string

// Audit levels. Each level includes the data of the previous levels.
const (
	LevelNone            Level = "None"
	LevelMetadata        Level = "Metadata"        // user, request line and response code
	LevelRequest         Level = "Request"         // also the request body
	LevelRequestResponse Level = "RequestResponse" // also the response body
)

// Stage is a point in the life of a request at which an event is recorded.
type Stage string

// Stages of a request.
const (
	StageRequestReceived  Stage = "RequestReceived"
	StageResponseStarted  Stage = "ResponseStarted" // only for long-running requests and requests rejected before authentication
	StageResponseComplete Stage = "ResponseComplete"
	StagePanic            Stage = "Panic"
)

// Event is the record of a request at a stage (audit.k8s.io/v1).
type Event struct {
	metav1.TypeMeta `json:",inline"`

	Level   Level  `json:"level"`
	AuditID string `json:"auditID"`
	Stage   Stage  `json:"stage"`

	RequestURI             string                  `json:"requestURI"`
	Verb                   string                  `json:"verb"`
	User                   User                    `json:"user"` // the authenticated user
	ImpersonatedUser       *User                   `json:"impersonatedUser,omitempty"`
	AuthenticationMetadata *AuthenticationMetadata `json:"authenticationMetadata,omitempty"`
	SourceIPs              []string                `json:"sourceIPs,omitempty"`
	UserAgent              string                  `json:"userAgent,omitempty"`
	ObjectRef              *ObjectReference        `json:"objectRef,omitempty"`
	ResponseStatus         *metav1.Status          `json:"responseStatus,omitempty"`

	// RequestObject and ResponseObject are results of Body, or nil if the level excludes them.
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

// AuthenticationMetadata contains details of the authentication of the user.
type AuthenticationMetadata struct {
	// ImpersonationConstraint is the verb that allowed the impersonation. It is empty for the verb
	// impersonate, which does not restrict the actions of the user.
	ImpersonationConstraint string `json:"impersonationConstraint,omitempty"`
}

// ObjectReference identifies the object of a request.
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

// EventList is the request body of audit webhooks.
type EventList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Event `json:"items"`
}
