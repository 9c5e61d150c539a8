package webhooks

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// TestBreaker checks that a failing webhook is called by only one request at a time, and that the pauses
// between calls are proportional to the duration of the calls.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	refused := errors.New("refused")
	fail := func(took time.Duration) (open bool) {
		t.Helper()
		probe, err := b.beginCall(now)
		if err != nil {
			t.Fatal(err)
		}
		began := now
		now = now.Add(took)
		open, _ = b.endCall(probe, refused, began, now)
		return open
	}
	for i := range failureThreshold {
		if open := fail(10 * time.Second); open != (i == failureThreshold-1) {
			t.Errorf("open after %d failures: %t", i+1, open)
		}
	}
	_, err := b.beginCall(now)
	if want := "it failed 5 times in a row and is not called again for 10s; the last error: refused"; err == nil || err.Error() != want || !errors.Is(err, refused) {
		t.Errorf("%v, want %q", err, want)
	}
	now = now.Add(10 * time.Second)
	probe, err := b.beginCall(now)
	if err != nil {
		t.Fatalf("after the pause: %v", err)
	}
	if _, err := b.beginCall(now); err == nil || !strings.Contains(err.Error(), "while another request calls it") {
		t.Errorf("a second call at the same time: %v", err)
	}
	b.abandonCall(probe)
	fail(time.Millisecond)
	if _, err := b.beginCall(now); err == nil || !strings.Contains(err.Error(), "not called again for 2ms") {
		t.Errorf("after a quick failure: %v", err)
	}
	now = now.Add(2 * time.Millisecond)
	if probe, err = b.beginCall(now); err != nil {
		t.Fatal(err)
	}
	if _, closed := b.endCall(probe, nil, now, now); !closed {
		t.Error("a successful call did not close the circuit")
	}
	if _, err := b.beginCall(now); err != nil {
		t.Errorf("after a response: %v", err)
	}
}

// TestOneProbe checks that the end of a call that began before the circuit opened does not permit a second call
// during a probe.
func TestOneProbe(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	now := time.Now()
	for name, end := range map[string]func(b *breaker, probe bool){
		"failed":   func(b *breaker, probe bool) { b.endCall(probe, refused, now, now) },
		"canceled": func(b *breaker, probe bool) { b.abandonCall(probe) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b breaker
			begin := func() bool {
				t.Helper()
				probe, err := b.beginCall(now)
				if err != nil {
					t.Fatal(err)
				}
				return probe
			}
			early := begin()
			for range failureThreshold {
				b.endCall(begin(), refused, now, now)
			}
			probe := begin()
			end(&b, early)
			if _, err := b.beginCall(now); err == nil {
				t.Error("a second call is permitted during a probe")
			}
			end(&b, probe)
			begin()
		})
	}
}

// TestOpenCircuit checks that the failure policy is applied immediately while the circuit is open, and that the
// error message contains the reason.
func TestOpenCircuit(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := serve(t, map[string]responder{"/hook": func(_ http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) {
		calls.Add(1)
		<-r.Context().Done()
	}})
	p := validating(s.spec("/hook", second))
	h := p.source.stored["c"][0]
	for range failureThreshold - 1 {
		h.breaker.endCall(false, errors.New("no"), time.Now().Add(-time.Second), time.Now())
	}
	if err := p.Validate(t.Context(), creation(configMaps())); err == nil || !strings.HasSuffix(err.Error(), "context deadline exceeded") {
		t.Fatal(err)
	}
	err := p.Validate(t.Context(), creation(configMaps()))
	if err == nil || !strings.HasPrefix(err.Error(), failed+"failed to call webhook: it failed 5 times in a row and is not called again for ") {
		t.Errorf("call with an open circuit: error %v", err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestReports checks that the failures of an unstable webhook are reported at most once per minute, and that
// each reported failure is followed by a report of the recovery.
func TestReports(t *testing.T) {
	t.Parallel()
	var b breaker
	start := time.Now()
	for i, step := range []struct {
		open  bool
		after time.Duration
		want  bool
	}{{true, 0, true}, {false, 1, true}, {true, 2, false}, {false, 3, false}, {true, minReportInterval, true}, {true, minReportInterval + 1, false}, {false, minReportInterval + 1, true}} {
		if got := b.shouldReport(step.open, start.Add(step.after)); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
}
