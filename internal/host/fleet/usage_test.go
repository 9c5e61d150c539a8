package fleet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/controllers/changes"
)

// TestUsageOfOtherServers checks that a server uses the usage in the status after another server has started to
// run the controllers.
func TestUsageOfOtherServers(t *testing.T) {
	t.Parallel()
	p := newPlane(&Fleet{}, planeKey{"a", "uid-a"})
	report := func(objects int64) {
		t.Helper()
		status := controlplanes.Status{Objects: ptr.To(objects), Bytes: ptr.To(10 * objects)}
		if err := p.set(&controlplanes.ControlPlane{Status: status}, p.mu.applied+1); err != nil {
			t.Fatal(err)
		}
	}
	report(1)
	u := &p.limitsLocked().usage
	expect := func(want int64, open, known bool) {
		t.Helper()
		if got, _, reports := u.counted(open); got != want || reports != known {
			t.Errorf("%d objects, reported: %v; want %d, %v", got, reports, want, known)
		}
	}
	expect(1, true, false)
	u.Reset()
	for range 3 {
		u.Changed(&changes.Change{Value: []byte("x")})
	}
	expect(1, true, false)
	u.Synced()
	report(1) // an older report
	expect(3, true, true)
	u.Stopped()
	expect(3, true, false) // another server may change objects
	expect(3, false, true) // the control plane is closed

	p.mu.reportDue = true // this server has not reported its count yet
	report(2)
	expect(3, false, true)
	var status controlplanes.Status
	if p.addUsage(&status); status.Objects == nil || *status.Objects != 3 {
		t.Errorf("the status is %+v", status)
	}
	report(3)
	report(7) // a report of another server
	expect(7, false, false)
	p.mu.reportDue = true
	status = controlplanes.Status{Objects: ptr.To[int64](8)} // a report of another server
	if p.addUsage(&status); *status.Objects != 8 {
		t.Errorf("the status was overwritten with %d", *status.Objects)
	}
	u.Reset()
	u.Changed(&changes.Change{Value: []byte("x")})
	u.Synced()
	report(7)
	expect(1, true, true)
}

// TestWakeTimeOfOtherServers checks that a server uses the wake time in the status, even if it ran the
// controllers of the control plane before.
func TestWakeTimeOfOtherServers(t *testing.T) {
	t.Parallel()
	p := newPlane(&Fleet{}, planeKey{"a", "uid-a"})
	now := time.Now()
	report := func(wake time.Time) {
		t.Helper()
		object := &controlplanes.ControlPlane{}
		if !wake.IsZero() {
			object.Status.WakeTime = &metav1.Time{Time: wake}
		}
		if err := p.set(object, p.mu.applied+1); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want time.Time) {
		t.Helper()
		if !p.mu.wake.at.Equal(want) {
			t.Errorf("the wake time is %v, want %v", p.mu.wake.at, want)
		}
	}
	own := now.Add(time.Hour).Truncate(time.Second)
	p.mu.wake.own, p.mu.wake.at, p.mu.reportDue = true, own, true // as after a session
	report(time.Time{})                                           // an older report
	expect(own)
	var status controlplanes.Status
	if p.addUsage(&status); status.WakeTime == nil || !status.WakeTime.Time.Equal(own) {
		t.Errorf("the status is %+v", status)
	}
	report(own)
	expect(own)
	other := now.Add(time.Minute)
	report(other)
	expect(other)
	if p.makeReportDue() {
		t.Error("this server reports a wake time that another server has reported")
	}
	report(time.Time{})
	expect(time.Time{})
}
