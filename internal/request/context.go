package request

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// User is a user, as authenticated or impersonated. It is shared by requests and must not be
// modified.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Node returns the name of the kubelet's node. ok is false if the user is nil or not a kubelet. The
// node name is empty if the user name is only NodePrefix.
func (u *User) Node() (name string, ok bool) {
	if u == nil {
		return "", false
	}
	name, ok = strings.CutPrefix(u.Name, NodePrefix)
	if !ok || !slices.Contains(u.Groups, GroupNodes) {
		return "", false
	}
	return name, true
}

// Well-known users and groups.
const (
	// Anonymous is the user of a request without credentials.
	Anonymous = "system:anonymous"
	// GroupUnauthenticated contains only Anonymous, GroupAuthenticated all other users.
	GroupUnauthenticated = "system:unauthenticated"
	GroupAuthenticated   = "system:authenticated"
	// GroupMasters is authorized for everything.
	GroupMasters = "system:masters"
	// GroupNodes is the group of kubelets. The user name of a kubelet is NodePrefix followed by the
	// name of its node.
	GroupNodes = "system:nodes"
	NodePrefix = "system:node:"
)

// scope contains the data of a request under a single context key.
type scope struct {
	context.Context
	info             *Info
	route            Route
	user             *User
	authentication   *Authentication
	impersonation    *Impersonation
	auditID          string
	fieldManager     string
	restored         *Restored
	received         time.Time
	original         *http.Request
	cancel           context.CancelCauseFunc // of a long-running request; nil for others
	latencies        latencies
	watchInitialized atomic.Pointer[func()]
	warnings         Warnings
	audit            *Audit     // nil disables recording
	visibility       Visibility // nil means no limit
}

type scopeKey struct{}

// NewContext returns the context of a request, with its Info and its arrival time. Filters add further data
// with the Set functions before the handler runs. A Set function must not run concurrently with other functions
// of this package on the same context. The Set functions have no effect on a context that is not derived from
// NewContext.
func NewContext(parent context.Context, info *Info, received time.Time) context.Context {
	return &scope{Context: parent, info: info, received: received}
}

// Value implements context.Context.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

func scopeFrom(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// InfoFrom returns the parsed request line; nil outside a request. The value is shared and must not
// be modified.
func InfoFrom(ctx context.Context) *Info {
	if s := scopeFrom(ctx); s != nil {
		return s.info
	}
	return nil
}

// UserFrom returns the user whose permissions apply: the impersonated user or, without
// impersonation, the authenticated user. The result is nil before authentication and outside a
// request. The value is shared and must not be modified.
func UserFrom(ctx context.Context) *User {
	if s := scopeFrom(ctx); s != nil {
		return s.user
	}
	return nil
}

// SetUser sets the result of UserFrom. SetAuthentication and SetImpersonation also set this result.
func SetUser(ctx context.Context, user *User) {
	if s := scopeFrom(ctx); s != nil {
		s.user = user
	}
}

// AuditID returns the audit ID of the request; empty outside a request.
func AuditID(ctx context.Context) string {
	if s := scopeFrom(ctx); s != nil {
		return s.auditID
	}
	return ""
}

// SetAuditID sets the audit ID of the request.
func SetAuditID(ctx context.Context, id string) {
	if s := scopeFrom(ctx); s != nil {
		s.auditID = id
	}
}

// FieldManager returns the name of the manager that will own the fields that the request writes. It is empty
// until SetFieldManager is called, and outside a request.
func FieldManager(ctx context.Context) string {
	if s := scopeFrom(ctx); s != nil {
		return s.fieldManager
	}
	return ""
}

// SetFieldManager sets the result of FieldManager.
func SetFieldManager(ctx context.Context, manager string) {
	if s := scopeFrom(ctx); s != nil {
		s.fieldManager = manager
	}
}

// Restored is the identity of a deleted object that a request recreates.
type Restored struct {
	UID     types.UID
	Created metav1.Time
}

// RestoredFrom returns the identity of the object that the request restores, or nil if the request
// does not restore an object.
func RestoredFrom(ctx context.Context) *Restored {
	if s := scopeFrom(ctx); s != nil {
		return s.restored
	}
	return nil
}

// SetRestored records that the request restores an object.
func SetRestored(ctx context.Context, restored *Restored) {
	if s := scopeFrom(ctx); s != nil {
		s.restored = restored
	}
}

// UserAgent returns the User-Agent header of the request. It is empty outside a request and after Release.
func UserAgent(ctx context.Context) string {
	if s := scopeFrom(ctx); s != nil && s.original != nil {
		return s.original.UserAgent()
	}
	return ""
}

// Received returns the time at which the request arrived; the zero time outside a request.
func Received(ctx context.Context) time.Time {
	if s := scopeFrom(ctx); s != nil {
		return s.received
	}
	return time.Time{}
}

// SetOriginal records the http.Request that the listener created, so that Release can free its
// header. The http.Request is retained until Release or the end of the handler.
func SetOriginal(ctx context.Context, r *http.Request) {
	if s := scopeFrom(ctx); s != nil {
		s.original = r
	}
}

// Release frees the header of a request, and over HTTP/2 the received part of its body. Long-running handlers
// call it to limit the memory that a client can occupy. After Release, neither the handler nor the filters may
// use the header or the body.
func Release(r *http.Request) {
	if r.ProtoMajor >= 2 && r.Body != nil { // in HTTP/1.1, Close waits for the body
		_ = r.Body.Close()
	}
	r.Header = nil
	if s := scopeFrom(r.Context()); s != nil && s.original != nil {
		s.original.Header = nil
		s.original = nil
	}
}

// Warnings contains the texts of the Warning headers of a response. It is safe for concurrent use.
// The zero value is empty.
type Warnings struct {
	mu struct {
		sync.Mutex
		texts []string
		seen  map[string]bool
	}
}

// AddWarning adds a Warning header to the response. An empty or repeated text is ignored. AddWarning has no
// effect after the start of the response or outside a request. It is safe for concurrent use.
func AddWarning(ctx context.Context, text string) {
	s := scopeFrom(ctx)
	if s == nil || text == "" {
		return
	}
	w := &s.warnings
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.seen[text] {
		return
	}
	if w.mu.seen == nil {
		w.mu.seen = make(map[string]bool)
	}
	w.mu.seen[text] = true
	w.mu.texts = append(w.mu.texts, text)
}

// WarningsFrom returns the current warnings, in the order in which they were added. The caller owns the slice.
func WarningsFrom(ctx context.Context) []string {
	s := scopeFrom(ctx)
	if s == nil {
		return nil
	}
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	return append([]string(nil), s.warnings.mu.texts...)
}
