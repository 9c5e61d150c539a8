// Package faults injects faults into selected requests of a server, for tests. It contains the
// filter that applies the faults, and an HTTP endpoint for test programs in any language. Do not
// enable it on servers in production.
package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/request"
)

// Fault describes a fault. Verb, Resource, User and Name select authorized requests for resources;
// an empty field matches all requests. At least one of Delay, Status, DropWatch, StaleReads and
// FreezeWatch is required.
type Fault struct {
	Verb     string // get, list, watch, create, update, patch, delete or deletecollection
	Resource string // plural name, such as pods, or with a subresource, such as pods/status
	User     string
	Name     string // object name in the path; most creations have none

	// Count is the maximum number of affected requests; 0 means no limit.
	Count int
	// Probability is the fraction of matching requests that are affected, from 0 to 1. They are
	// chosen at random with Seed. 0 means all requests.
	Probability float64
	Seed        uint64

	// Delay delays the request before the other effects of the fault.
	Delay time.Duration
	// Status is the code of an error response, from 400 to 599. The body is a matching
	// metav1.Status: 409 is a conflict or, for a creation, AlreadyExists; 410 is an expired resource
	// version; 429 has a Retry-After of RetryAfter; other codes are generic.
	Status     int
	RetryAfter time.Duration // rounded to seconds; 0 means one second
	// DropWatch aborts watches, including existing ones.
	DropWatch bool
	// StaleReads serves gets and lists at the revision at which the fault was injected, like a server with a
	// slow cache. It affects only requests that permit old data, which are requests with resourceVersion 0, or
	// with an older resourceVersion that need not match exactly. The revision remains readable for one hour.
	StaleReads bool
	// FreezeWatch delays the events of watches, including existing ones, until the fault is
	// removed.
	FreezeWatch bool
}

// check returns an error if the fault is invalid.
func (f Fault) check() error {
	switch {
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("Status is %d; it must be between 400 and 599", f.Status)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("Probability is %g; it must be between 0 and 1", f.Probability)
	case f.Count < 0 || f.Delay < 0 || f.RetryAfter < 0:
		return errors.New("Count, Delay and RetryAfter cannot be negative")
	case f.Status == 0 && f.Delay == 0 && !f.affectsWatches() && !f.StaleReads:
		return errors.New("one of Status, Delay, DropWatch, FreezeWatch and StaleReads is required")
	case (f.affectsWatches() || f.StaleReads) && f.Status != 0:
		return errors.New("Status excludes DropWatch, FreezeWatch and StaleReads")
	case f.affectsWatches() && f.StaleReads:
		return errors.New("StaleReads excludes DropWatch and FreezeWatch")
	}
	return nil
}

func (f *Fault) affectsWatches() bool { return f.DropWatch || f.FreezeWatch }

// Injection is an injected fault. Its methods are safe for concurrent use.
type Injection struct {
	id      int // ID in the HTTP endpoint
	fault   Fault
	set     *Set
	random  *rand.Rand    // guarded by set.mu, like hits
	removed chan struct{} // closed by Remove
	hits    int
	// revision is the revision for StaleReads. It remains readable until release is called, but for
	// at most one hour.
	revision int64
	release  func()
}

// Remove removes the fault and ends its delays. Frozen watches continue. It may be called more than
// once.
func (i *Injection) Remove() {
	i.set.mu.Lock()
	defer i.set.mu.Unlock()
	select {
	case <-i.removed:
	default:
		close(i.removed)
		i.release()
		i.set.mu.injections = slices.DeleteFunc(i.set.mu.injections, func(other *Injection) bool { return other == i })
	}
}

// Hits returns the number of affected requests so far.
func (i *Injection) Hits() int {
	i.set.mu.Lock()
	defer i.set.mu.Unlock()
	return i.hits
}

// Set contains the injected faults of a server. The zero value is an empty set without stale reads.
// It is safe for concurrent use.
type Set struct {
	// HoldRevision returns the newest revision and keeps it readable until release is called. If it
	// is nil, faults with StaleReads are rejected. Set it before the first Inject.
	HoldRevision func(ctx context.Context) (revision int64, release func(), err error)

	mu struct {
		sync.Mutex
		injections []*Injection
		injected   int      // number of injected faults so far
		watches    []*watch // active watches
	}
}

// Inject injects a fault until Remove is called. All matching faults apply to a request, in the
// order of injection, until one has written a response. Inject returns an error if the fault is
// invalid or if stale reads are unavailable.
func (f *Set) Inject(ctx context.Context, fault Fault) (*Injection, error) {
	if err := fault.check(); err != nil {
		return nil, fmt.Errorf("inject a fault: %w", err)
	}
	i := &Injection{fault: fault, set: f, random: rand.New(rand.NewPCG(fault.Seed, fault.Seed)), removed: make(chan struct{}), release: func() {}}
	if fault.StaleReads {
		if err := i.holdRevision(ctx); err != nil {
			return nil, fmt.Errorf("inject a fault: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.injected++
	i.id = f.mu.injected
	f.mu.injections = append(f.mu.injections, i)
	if fault.affectsWatches() {
		for _, w := range f.mu.watches {
			if i.matchLocked(w.request) {
				w.apply(i)
			}
		}
	}
	return i, nil
}

// Clear removes all faults.
func (f *Set) Clear() {
	for _, i := range f.all() {
		i.Remove()
	}
}

func (f *Set) all() []*Injection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.injections)
}

// match returns the faults that apply to a request, and counts the request for each. If w is not
// nil, it registers the watch, so that later faults apply to it.
func (f *Set) match(r *http.Request, w *watch) []*Injection {
	f.mu.Lock()
	defer f.mu.Unlock()
	var met []*Injection
	for _, i := range f.mu.injections {
		if i.matchLocked(r) {
			met = append(met, i)
		}
	}
	if w != nil {
		f.mu.watches = append(f.mu.watches, w)
	}
	return met
}

func (f *Set) removeWatch(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.watches = slices.DeleteFunc(f.mu.watches, func(other *watch) bool { return other == w })
}

// matchLocked reports whether the fault applies to a request, and counts the request if it does.
func (i *Injection) matchLocked(r *http.Request) bool {
	fault := &i.fault
	if fault.Count > 0 && i.hits >= fault.Count || !i.matches(r) {
		return false
	}
	if fault.Probability > 0 && i.random.Float64() >= fault.Probability {
		return false
	}
	i.hits++
	return true
}

func (i *Injection) matches(r *http.Request) bool {
	f := &i.fault
	info, user := request.InfoFrom(r.Context()), request.UserFrom(r.Context())
	if info == nil || !info.IsResource {
		return false
	}
	if f.affectsWatches() && info.Verb != "watch" || f.StaleReads && !i.allowsStale(r, info) {
		return false
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	is := func(want, got string) bool { return want == "" || want == got }
	return is(f.Verb, info.Verb) && is(f.Resource, resource) && is(f.Name, info.Name) && (f.User == "" || user != nil && user.Name == f.User)
}

// Filter returns a handler that applies the faults to requests before next. It must run after
// authentication and authorization.
func (f *Set) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var stream *watch
		if info := request.InfoFrom(r.Context()); info != nil && info.IsResource && info.Verb == "watch" {
			stream = newWatch(w, r)
			defer f.removeWatch(stream)
			w = stream
		}
		for _, i := range f.match(r, stream) {
			if responded := i.apply(w, r, stream); responded {
				return
			}
			if i.fault.StaleReads {
				r = i.makeStale(r)
			}
		}
		if stream != nil {
			r = r.WithContext(stream.ctx)
			defer stream.finish()
		}
		next.ServeHTTP(w, r)
	})
}

// apply applies the fault to a request. It reports whether it has written a response. It blocks for
// the delay.
func (i *Injection) apply(w http.ResponseWriter, r *http.Request, stream *watch) (responded bool) {
	if delay := i.fault.Delay; delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-i.removed:
		case <-r.Context().Done():
		}
	}
	if i.fault.Status != 0 {
		endpoints.WriteStatus(w, r, endpoints.StatusOf(i.fault.apiError(request.InfoFrom(r.Context()))))
		return true
	}
	if stream != nil {
		stream.apply(i)
	}
	return false
}

// apiError returns the API error for Status.
func (f *Fault) apiError(info *request.Info) error {
	const message = "a fault that the test has injected"
	resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
	switch {
	case f.Status == http.StatusConflict && info.Verb == "create":
		if info.Name == "" { // the name of most created objects is only in the body
			err := apierrors.NewAlreadyExists(resource, "")
			err.ErrStatus.Message = message
			return err
		}
		return apierrors.NewAlreadyExists(resource, info.Name)
	case f.Status == http.StatusConflict:
		return apierrors.NewConflict(resource, info.Name, errors.New(message))
	case f.Status == http.StatusGone:
		return apierrors.NewResourceExpired(message)
	case f.Status == http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests(message, f.retrySeconds())
	case f.Status == http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(message))
	}
	return apierrors.NewGenericServerResponse(f.Status, info.Verb, resource, info.Name, message, f.retrySeconds(), false)
}

func (f *Fault) retrySeconds() int {
	if f.RetryAfter == 0 {
		return 1
	}
	return int(f.RetryAfter.Round(time.Second) / time.Second)
}
