package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of what a request's audit annotations hold. Their values may come from
// clients (names, what a policy makes of an object), and a watch keeps them for
// as long as it lasts.
const (
	maxAuditAnnotations     = 256
	maxAuditAnnotationBytes = 64 << 10
)

// Errors of Annotate.
var (
	// ErrAnnotated is returned for a key that has another value.
	ErrAnnotated = errors.New("the audit annotation has another value")
	// ErrAnnotationsFull is returned when a request has as many audit annotations
	// as it may have.
	ErrAnnotationsFull = errors.New("too many audit annotations")
)

// Audit collects what handlers know and the audit events of a request tell. The
// exported fields are set before the handler runs. The methods are safe for
// concurrent use, and those of a nil Audit, a request's that is not audited, do
// nothing. The zero value is ready.
type Audit struct {
	// RequestBody and ResponseBody say which bodies are to be recorded. For others
	// no caller should go to the expense of making them.
	RequestBody, ResponseBody bool
	// OmitManagedFields says that managed fields are to be left out of bodies.
	OmitManagedFields bool

	mu struct {
		sync.Mutex
		annotations map[string]string
		bytes       int // of annotations
		recorded    AuditRecord
	}
}

// AuditRecord is what handlers have recorded of a request.
type AuditRecord struct {
	// Object is what the request's body says of its object.
	Object AuditObject
	// Status is that of the response, where it is one; nil otherwise.
	Status *metav1.Status
	// RequestBody and ResponseBody are JSON; nil where there is none or it is not
	// wanted. Truncated means that one was too long to be recorded.
	RequestBody, ResponseBody []byte
	Truncated                 bool
}

// AuditObject is an object by its metadata.
type AuditObject struct {
	Namespace, Name, UID, ResourceVersion string
}

// SetAudit makes a request an audited one. With nil it is none any more.
func SetAudit(ctx context.Context, a *Audit) {
	if s := from(ctx); s != nil {
		s.audit = a
	}
}

// AuditFrom returns where to record what the request's audit events tell; nil where
// it is not audited.
func AuditFrom(ctx context.Context) *Audit {
	if s := from(ctx); s != nil {
		return s.audit
	}
	return nil
}

// WantsRequestBody reports whether the request's body is to be recorded.
func (a *Audit) WantsRequestBody() bool { return a != nil && a.RequestBody }

// WantsResponseBody reports whether the response's body is to be recorded.
func (a *Audit) WantsResponseBody() bool { return a != nil && a.ResponseBody }

// record calls f with the record.
func (a *Audit) record(f func(*AuditRecord)) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.mu.recorded)
}

// SetObject records the object that was sent.
func (a *Audit) SetObject(object AuditObject) { a.record(func(r *AuditRecord) { r.Object = object }) }

// SetRequestBody records a body as JSON, which must not be changed any more.
func (a *Audit) SetRequestBody(json []byte) {
	a.record(func(r *AuditRecord) { r.RequestBody = json })
}

// SetResponseBody records a body as JSON, which must not be changed any more.
func (a *Audit) SetResponseBody(json []byte) {
	a.record(func(r *AuditRecord) { r.ResponseBody = json })
}

// SetTruncated records that a body is too long to be recorded.
func (a *Audit) SetTruncated() { a.record(func(r *AuditRecord) { r.Truncated = true }) }

// SetResponseStatus records the status that is the response. It must not be
// changed any more.
func (a *Audit) SetResponseStatus(status *metav1.Status) {
	a.record(func(r *AuditRecord) { r.Status = status })
}

// Recorded returns what has been recorded so far.
func (a *Audit) Recorded() (recorded AuditRecord) {
	a.record(func(r *AuditRecord) { recorded = *r })
	return recorded
}

// Annotate adds an annotation to the request's audit event. A key keeps its first
// value: another one is ErrAnnotated, the same again does nothing. What exceeds
// the limits of a request is ErrAnnotationsFull and not kept. It is safe for
// concurrent use; of a request that is not audited nothing is kept.
func Annotate(ctx context.Context, key, value string) error {
	a := AuditFrom(ctx)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if there, ok := a.mu.annotations[key]; ok {
		if there != value {
			return fmt.Errorf("annotate %s with %q: %w: %q", key, value, ErrAnnotated, there)
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

// AnnotationsFrom returns the audit annotations of a request; nil where there are
// none. The caller owns the map.
func AnnotationsFrom(ctx context.Context) map[string]string {
	a := AuditFrom(ctx)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.mu.annotations)
}
