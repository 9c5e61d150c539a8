package fleet

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controllers/changes"
)

// usage counts the stored objects of a control plane. It implements controlplane.ChangeSubscriber, and counts
// the objects on the server that runs the controllers. The other servers that share an etcd cluster use the
// values in the status. usage is safe for concurrent use.
type usage struct {
	mu             sync.Mutex
	objects, bytes int64
	known          bool // this process has counted all objects, and has not received values of another process since
	running        bool // the controllers run in this process, which therefore receives all changes
	// counting contains the sums since Reset. It is nil after Synced.
	counting *struct{ objects, bytes int64 }
}

// get returns the number and size of the objects; 0 if they are unknown.
func (u *usage) get() (objects, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.objects, u.bytes
}

// Reset implements changes.Subscriber.
func (u *usage) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counting, u.running = &struct{ objects, bytes int64 }{}, true
}

// Stopped implements controlplane.ChangeSubscriber.
func (u *usage) Stopped() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counting, u.running = nil, false
}

// Changed implements changes.Subscriber.
func (u *usage) Changed(c *changes.Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	objects, bytes := int64(0), int64(len(c.Value)-len(c.Prev))
	switch {
	case c.Prev == nil && c.Value != nil:
		objects = 1
	case c.Value == nil && c.Prev != nil:
		objects = -1
	}
	if u.counting != nil {
		u.counting.objects += objects
		u.counting.bytes += bytes
		return
	}
	u.objects += objects
	u.bytes += bytes
}

// Synced implements changes.Subscriber.
func (u *usage) Synced() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects, u.bytes, u.known, u.counting = u.counting.objects, u.counting.bytes, true, nil
}

// setReported applies the usage in the status, unless this server counts the objects itself, or unreported is
// true and this server has counted them since the last report.
func (u *usage) setReported(stored storedUsage, unreported bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known && (u.running || unreported) || stored.objects == nil || stored.bytes == nil {
		return
	}
	u.objects, u.bytes, u.known = *stored.objects, *stored.bytes, false
}

// counted returns the number and size of the objects. known is false if this server has not counted them. It is
// also false if another server may have changed them since, because the control plane is open but its
// controllers do not run in this process.
func (u *usage) counted(open bool) (objects, bytes int64, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.objects, u.bytes, u.known && (u.running || !open)
}

// addUsage adds the current usage to a status if a report is due. Other status updates do not contain it,
// because each update would cause another one.
func (p *plane) addUsage(status *controlplanes.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.reportDue {
		return
	}
	p.mu.reportDue = false
	if !p.mu.requested.IsZero() {
		if at := metav1.NewTime(p.mu.requested.Truncate(reportedPrecision)); status.LastRequestTime.Before(&at) {
			status.LastRequestTime = &at
		}
		p.mu.reported = p.mu.requested
	}
	if wake, known := p.wakeLocked(); known {
		status.WakeTime = nil
		if !wake.IsZero() {
			at := metav1.NewTime(wake.Truncate(reportedPrecision))
			status.WakeTime = &at
		}
		p.mu.wake.reported = wake
	}
	if p.mu.limits == nil {
		return
	}
	if objects, bytes, known := p.mu.limits.usage.counted(p.mu.session != nil); known {
		status.Objects, status.Bytes = &objects, &bytes
	}
}

// reportAgain makes a report due after a failed update of the status.
func (p *plane) reportAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.reportDue = true
}

// reportedPrecision is the precision of times in the status.
const reportedPrecision = time.Second

// makeReportDue makes a report due if there were requests since the last report, or if the time of the
// controllers' next work has changed. It returns whether a report is due.
func (p *plane) makeReportDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	wake, known := p.wakeLocked()
	if p.mu.requested.After(p.mu.reported) || known && p.mu.session != nil && !wake.Equal(p.mu.wake.reported) {
		p.mu.reportDue = true
	}
	return p.mu.reportDue
}

// wakeLocked returns the time at which a controller has work. The time is in the past if a controller is
// busy, and zero if there is no work. known is false if another server runs the controllers. mu must be
// held.
func (p *plane) wakeLocked() (wake time.Time, known bool) {
	if p.mu.session == nil {
		return p.mu.wake.at, p.mu.wake.own
	}
	busy, due, known := p.mu.session.PendingWork()
	if busy { // a time in the past lets another process continue the work after a crash
		due = p.mu.session.opened
	}
	return due, known
}
