package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of the audit annotations of a request. Annotations can contain client data, such as object
// names, and a watch retains its annotations until it ends.
const (
	maxAuditAnnotations     = 256
	maxAuditAnnotationBytes = 64 << 10
)

// Errors of Annotate.
var (
	// ErrAnnotated is returned for a key that already has a different value.
	ErrAnnotated = errors.New("the audit annotation has another value")
	// ErrAnnotationsFull is returned if the limits of the audit annotations of a request are
	// exceeded.
	ErrAnnotationsFull = errors.New("too many audit annotations")
)

// Audit collects the data of handlers for the audit events of a request. The exported fields are
// set before the handler runs. The methods are safe for concurrent use. A request without auditing
// has a nil Audit, whose methods do nothing. The zero value is ready to use.
type Audit struct {
	// RequestBody and ResponseBody report whether the respective body is recorded. Callers should
	// not encode a body that is not recorded.
	RequestBody, ResponseBody bool
	// OmitManagedFields removes managed fields from recorded bodies.
	OmitManagedFields bool

	mu struct {
		sync.Mutex
		annotations map[string]string
		bytes       int // total size of the keys and values of annotations
		recorded    AuditRecord
	}
}

// AuditRecord is the data that handlers have recorded about a request.
type AuditRecord struct {
	// Object identifies the object in the request body.
	Object AuditObject
	// Status is the body of the response if it is a Status; nil otherwise. It is shared and must not
	// be modified.
	Status *metav1.Status
	// RequestBody and ResponseBody are JSON, or nil if there is no body or the body is not
	// recorded. Truncated reports whether a body was too long to be recorded.
	RequestBody, ResponseBody []byte
	Truncated                 bool
}

// AuditObject identifies an object. Unknown fields are empty.
type AuditObject struct {
	Namespace, Name, UID, ResourceVersion string
}

// SetAudit enables auditing of a request, or disables it if a is nil.
func SetAudit(ctx context.Context, a *Audit) {
	if s := scopeFrom(ctx); s != nil {
		s.audit = a
	}
}

// AuditFrom returns the Audit of a request, or nil if the request is not audited.
func AuditFrom(ctx context.Context) *Audit {
	if s := scopeFrom(ctx); s != nil {
		return s.audit
	}
	return nil
}

// RecordsRequestBody reports whether the request body must be recorded. It returns false for a nil
// Audit.
func (a *Audit) RecordsRequestBody() bool { return a != nil && a.RequestBody }

// RecordsResponseBody reports whether the response body must be recorded. It returns false for a nil
// Audit.
func (a *Audit) RecordsResponseBody() bool { return a != nil && a.ResponseBody }

// record calls f with the record while it holds the lock. It does nothing for a nil Audit.
func (a *Audit) record(f func(*AuditRecord)) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.mu.recorded)
}

// SetObject records the object in the request body.
func (a *Audit) SetObject(object AuditObject) { a.record(func(r *AuditRecord) { r.Object = object }) }

// SetRequestBody records the request body, which must be JSON, and takes ownership of the slice.
func (a *Audit) SetRequestBody(json []byte) {
	a.record(func(r *AuditRecord) { r.RequestBody = json })
}

// SetResponseBody records the response body, which must be JSON, and takes ownership of the slice.
func (a *Audit) SetResponseBody(json []byte) {
	a.record(func(r *AuditRecord) { r.ResponseBody = json })
}

// SetTruncated records that a body exceeds the maximum size.
func (a *Audit) SetTruncated() { a.record(func(r *AuditRecord) { r.Truncated = true }) }

// SetResponseStatus records the Status in the response body, and takes ownership of it.
func (a *Audit) SetResponseStatus(status *metav1.Status) {
	a.record(func(r *AuditRecord) { r.Status = status })
}

// Recorded returns the current record. Its slices and Status are shared and must not be modified.
func (a *Audit) Recorded() (recorded AuditRecord) {
	a.record(func(r *AuditRecord) { recorded = *r })
	return recorded
}

// Annotate adds an annotation to the request's audit event. It returns ErrAnnotated if the key
// already has a different value, and ErrAnnotationsFull if the annotation exceeds the limits of a
// request. In both cases, the new value is dropped. Annotate has no effect if the request is not
// audited. It is safe for concurrent use.
func Annotate(ctx context.Context, key, value string) error {
	a := AuditFrom(ctx)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, ok := a.mu.annotations[key]; ok {
		if old != value {
			return fmt.Errorf("annotate %s with %q: %w: %q", key, value, ErrAnnotated, old)
		}
		return nil
	}
	size := len(key) + len(value)
	if len(a.mu.annotations) >= maxAuditAnnotations || a.mu.bytes+size > maxAuditAnnotationBytes {
		return fmt.Errorf("annotate %s: %w", key, ErrAnnotationsFull)
	}
	if a.mu.annotations == nil {
		a.mu.annotations = make(map[string]string)
	}
	a.mu.annotations[key] = value
	a.mu.bytes += size
	return nil
}

// AnnotationsFrom returns the audit annotations of a request, or nil if there are none. The caller
// owns the map.
func AnnotationsFrom(ctx context.Context) map[string]string {
	a := AuditFrom(ctx)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.mu.annotations)
}
