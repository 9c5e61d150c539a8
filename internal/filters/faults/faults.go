// Package faults makes chosen requests of a server fail, for tests: the filter that does
// it, and the endpoint by which programs in any language ask for it. It is not for servers
// that anybody depends on.
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

// Fault makes requests fail. Its first fields select authorized requests; a field that is
// empty selects any.
type Fault struct {
	Verb     string // get, list, watch, create, update, patch, delete or deletecollection
	Resource string // in the plural, as pods, or with a subresource, as pods/status
	User     string
	Name     string // of the object, where the path has it

	// Count is how many requests fail; 0: all, until Remove.
	Count int
	// Probability is the share of requests that fail, drawn at random from Seed;
	// 0: all.
	Probability float64
	Seed        uint64

	// Delay is how long a request waits before anything else happens to it.
	Delay time.Duration
	// Status responds with this code and a matching Status: 409 is a conflict or, for a creation,
	// AlreadyExists; 410 an expired resource version; 429 has a Retry-After of RetryAfter; others
	// are generic.
	Status     int
	RetryAfter time.Duration // 0: 1s; whole seconds
	// DropWatch aborts watches, including existing ones.
	DropWatch bool
	// StaleReads serves gets and lists at the revision of Inject, if the request permits it, like a
	// server with a slow cache: requests with resourceVersion 0 or an older one that is not exact.
	// It lasts for an hour.
	StaleReads bool
	// FreezeWatch delays the events of watches until Remove, including existing watches.
	FreezeWatch bool
}

// check returns the errors of a fault.
func (f Fault) check() error {
	switch {
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("Status is %d; it must be that of an error", f.Status)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("Probability is %g; it must be between 0 and 1", f.Probability)
	case f.Count < 0 || f.Delay < 0 || f.RetryAfter < 0:
		return errors.New("Count, Delay and RetryAfter cannot be negative")
	case f.Status == 0 && f.Delay == 0 && !f.ofWatches() && !f.StaleReads:
		return errors.New("one of Status, Delay, DropWatch, FreezeWatch and StaleReads is required")
	case (f.ofWatches() || f.StaleReads) && f.Status != 0:
		return errors.New("Status excludes DropWatch, FreezeWatch and StaleReads")
	case f.ofWatches() && f.StaleReads:
		return errors.New("StaleReads, which is about gets and lists, excludes DropWatch and FreezeWatch")
	}
	return nil
}

func (f *Fault) ofWatches() bool { return f.DropWatch || f.FreezeWatch }

// Injection is a fault that was injected. Its methods may be called concurrently.
type Injection struct {
	id      int // of the endpoint
	fault   Fault
	set     *Set
	random  *rand.Rand    // guarded by set.mu, as is hits
	removed chan struct{} // closed by Remove
	hits    int
	// at is the revision of StaleReads, which is held until release.
	at      int64
	release func()
}

// Remove removes the fault. It may be called more than once.
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

// Hits returns how many requests the fault has met.
func (i *Injection) Hits() int {
	i.set.mu.Lock()
	defer i.set.mu.Unlock()
	return i.hits
}

// Set contains the faults of a server, and the affected watches. The zero value is empty. It is
// safe for concurrent use.
type Set struct {
	// Hold retains the newest revision until release; nil disables stale reads. Set it before the
	// first Inject.
	Hold func(ctx context.Context) (revision int64, release func(), err error)

	mu struct {
		sync.Mutex
		injections []*Injection
		injected   int      // so far
		watches    []*watch // under way
	}
}

// Inject makes requests fail until Remove. If several faults match, the first injected one applies.
// An invalid fault is an error.
func (f *Set) Inject(ctx context.Context, fault Fault) (*Injection, error) {
	if err := fault.check(); err != nil {
		return nil, fmt.Errorf("inject a fault: %w", err)
	}
	i := &Injection{fault: fault, set: f, random: rand.New(rand.NewPCG(fault.Seed, fault.Seed)), removed: make(chan struct{}), release: func() {}}
	if fault.StaleReads {
		if err := i.hold(ctx); err != nil {
			return nil, fmt.Errorf("inject a fault: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.injected++
	i.id = f.mu.injected
	f.mu.injections = append(f.mu.injections, i)
	if fault.ofWatches() {
		for _, w := range f.mu.watches {
			if i.meetsLocked(w.request) {
				w.meet(i)
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

// met returns the faults that a request meets, and, of a watch, registers it.
func (f *Set) met(r *http.Request, w *watch) []*Injection {
	f.mu.Lock()
	defer f.mu.Unlock()
	var met []*Injection
	for _, i := range f.mu.injections {
		if i.meetsLocked(r) {
			met = append(met, i)
		}
	}
	if w != nil {
		f.mu.watches = append(f.mu.watches, w)
	}
	return met
}

func (f *Set) forget(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.watches = slices.DeleteFunc(f.mu.watches, func(other *watch) bool { return other == w })
}

// meetsLocked reports whether a request meets the fault, and counts it.
func (i *Injection) meetsLocked(r *http.Request) bool {
	fault := &i.fault
	if fault.Count > 0 && i.hits >= fault.Count || !i.selects(r) {
		return false
	}
	if fault.Probability > 0 && i.random.Float64() >= fault.Probability {
		return false
	}
	i.hits++
	return true
}

func (i *Injection) selects(r *http.Request) bool {
	f := &i.fault
	info, user := request.InfoFrom(r.Context()), request.UserFrom(r.Context())
	if info == nil || !info.IsResource {
		return false
	}
	if f.ofWatches() && info.Verb != "watch" || f.StaleReads && !i.mayLag(r, info) {
		return false
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	is := func(wanted, got string) bool { return wanted == "" || wanted == got }
	return is(f.Verb, info.Verb) && is(f.Resource, resource) && is(f.Name, info.Name) && (f.User == "" || user != nil && user.Name == f.User)
}

// Filter is the filter of a server, for server.Config.
func (f *Set) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var stream *watch
		if info := request.InfoFrom(r.Context()); info != nil && info.IsResource && info.Verb == "watch" {
			stream = newWatch(w, r)
			defer f.forget(stream)
			w = stream
		}
		for _, i := range f.met(r, stream) {
			if answered := i.befall(w, r, stream); answered {
				return
			}
			if i.fault.StaleReads {
				r = i.lag(r)
			}
		}
		if stream != nil {
			r = r.WithContext(stream.ctx)
			defer stream.end()
		}
		next.ServeHTTP(w, r)
	})
}

// befall applies the fault to a request. It reports whether it has written a response.
func (i *Injection) befall(w http.ResponseWriter, r *http.Request, stream *watch) (answered bool) {
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
		endpoints.WriteStatus(w, r, endpoints.StatusOf(i.fault.err(request.InfoFrom(r.Context()))))
		return true
	}
	if stream != nil {
		stream.meet(i)
	}
	return false
}

// err is the error of Status.
func (f *Fault) err(info *request.Info) error {
	const message = "a fault that the test has injected"
	resource := schema.GroupResource{Group: info.Group, Resource: info.Resource}
	switch {
	case f.Status == http.StatusConflict && info.Verb == "create":
		if info.Name == "" { // as for most creations, because the name is in the body
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
