package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

var errAway = errors.New("the storage is unavailable")

func away(string) error { return errAway }

func TestConfigValidation(t *testing.T) {
	t.Parallel()
	_, err := reflector.New(reflector.Config{Name: "pods"})
	if want := "reflector of pods: Collection is required\nReplace is required\nApply is required"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestListAndWatch checks that the list is delivered first, then each change.
func TestListAndWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, m := newPods(t), &mirror{}
		a := p.create("a")
		f := newReflector(t, p, m, nil)
		select {
		case <-f.Synced():
			t.Fatal("Synced is closed before Run")
		default:
		}
		run(t, f)
		<-f.Synced()
		b := p.create("b")
		p.create("c")
		p.remove("c")
		b = max(b, p.change("b", "node"))
		synctest.Wait()
		if there, replaced := m.read(); there != fmt.Sprintf("map[a:%d b:%d]", a, b) || replaced != 1 {
			t.Errorf("after %d lists: %s", replaced, there)
		}
		if calls := p.set(func() {}); calls != fmt.Sprintf("list watch %d", a) {
			t.Errorf("calls: %s", calls)
		}
		m.check(t)
	})
}

// TestSelectors checks that selectors and namespace apply to the list and the watch.
func TestSelectors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, m := newPods(t), &mirror{}
		p.create("before")
		p.create("chosen")
		run(t, newReflector(t, p, m, func(c *reflector.Config) {
			c.Namespace, c.Fields = "ns", fields.OneTermEqualSelector("metadata.name", "chosen")
		}))
		synctest.Wait()
		p.create("after")
		revision := p.change("chosen", "node")
		synctest.Wait()
		if there, _ := m.read(); there != fmt.Sprintf("map[chosen:%d]", revision) {
			t.Error(there)
		}
	})
}

// TestLoad checks that Run continues after Load, and calls BeforeWatch first.
func TestLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, m := newPods(t), &mirror{}
		began := 0
		f := newReflector(t, p, m, func(c *reflector.Config) {
			c.BeforeWatch = func(context.Context) error { began++; return nil }
		})
		p.set(func() { p.fail = away })
		if err := f.Load(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("load: %v", err)
		}
		p.set(func() { p.fail = nil })
		a := p.create("a")
		if err := f.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-f.Synced()
		if there, _ := m.read(); there != fmt.Sprintf("map[a:%d]", a) || began != 0 {
			t.Errorf("loaded %s, BeforeWatch was called %d times", there, began)
		}
		b := p.create("b") // between Load and Run
		stop := run(t, f)
		synctest.Wait()
		if there, replaced := m.read(); there != fmt.Sprintf("map[a:%d b:%d]", a, b) || replaced != 1 || began != 1 {
			t.Errorf("after %d lists and %d calls of BeforeWatch: %s", replaced, began, there)
		}
		stop()
		p.remove("a")
		run(t, f)
		synctest.Wait()
		if there, replaced := m.read(); there != fmt.Sprintf("map[b:%d]", b) || replaced != 1 || began != 2 {
			t.Errorf("second run, after %d lists and %d calls of BeforeWatch: %s", replaced, began, there)
		}
		m.check(t)
	})
}

// TestBrokenList checks that an interrupted list is discarded, regardless of Replace's result.
func TestBrokenList(t *testing.T) {
	t.Parallel()
	p := newPods(t)
	p.create("a")
	p.item = func() error { return errAway }
	f := newReflector(t, p, &mirror{}, func(c *reflector.Config) {
		c.Replace = func(_ context.Context, list *rest.List) error {
			for range list.Items { // ignores the error
			}
			return nil
		}
	})
	if err := f.Load(t.Context()); !errors.Is(err, errAway) || !strings.HasPrefix(err.Error(), "list pods: ") {
		t.Errorf("load: %v", err)
	}
	select {
	case <-f.Synced():
		t.Error("synced")
	default:
	}
}

// TestResume checks the revision of the next watch, which depends on how the previous watch ended.
func TestResume(t *testing.T) {
	t.Parallel()
	expired := storage.TooOld(1, 2)
	tests := []struct {
		name string
		// delivered is set if the watch returns an event before err.
		delivered bool
		err       error
		// want are the subsequent calls. R stands for the current revision.
		want, log string
	}{
		{"closed after an event", true, rest.ErrWatchClosed, "watch R", ""},
		{"broken after an event", true, errAway, "watch R", ""},
		{"closed at once", false, rest.ErrWatchClosed, "list watch R", "level=WARN level=INFO"},
		{"expired", false, expired, "list watch R", "level=INFO"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, m, log := newPods(t), &mirror{}, &lines{}
				revision := p.create("a")
				skip, failed := 0, false
				if tt.delivered {
					skip = 1
				}
				p.next = func() error {
					if skip--; skip >= 0 || failed {
						return nil
					}
					failed = true
					return tt.err
				}
				run(t, newReflector(t, p, m, func(c *reflector.Config) { c.Logger = log.logger() }))
				synctest.Wait()
				if tt.delivered {
					revision = p.create("b")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				calls := p.set(func() {})
				_, after, _ := strings.Cut(calls, "watch ")
				_, after, _ = strings.Cut(after, " ")
				if want := strings.ReplaceAll(tt.want, "R", fmt.Sprint(revision)); after != want {
					t.Errorf("calls %s: %q in the end, want %q", calls, after, want)
				}
				var levels []string
				for _, line := range strings.Fields(log.String()) {
					if strings.HasPrefix(line, "level=") {
						levels = append(levels, line)
					}
				}
				if diff := cmp.Diff(tt.log, strings.Join(levels, " ")); diff != "" {
					t.Errorf("log (-want +got):\n%s\n%s", diff, log)
				}
				last := p.create("z")
				synctest.Wait()
				if there, _ := m.read(); !strings.Contains(there, fmt.Sprintf("z:%d", last)) {
					t.Errorf("a later change was not reported: %s", there)
				}
				m.check(t)
			})
		})
	}
}

// TestExpired checks that a restarted reflector lists the collection again if the history since its
// last revision was compacted in the meantime.
func TestExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, m := newPods(t), &mirror{}
		p.create("a")
		f := newReflector(t, p, m, nil)
		run(t, f)()
		p.remove("a")
		last := p.create("b")
		current, err := p.backend.CurrentRevision(t.Context())
		if err == nil {
			err = p.backend.Compact(t.Context(), current)
		}
		if err != nil {
			t.Fatal(err)
		}
		run(t, f)
		time.Sleep(time.Second)
		synctest.Wait()
		if there, _ := m.read(); there != fmt.Sprintf("map[b:%d]", last) {
			t.Error(there)
		}
		m.check(t)
	})
}

// TestBackoff checks that delays between attempts grow, that ctx ends a delay, and that an outage logs two
// lines.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, m, log, registry := newPods(t), &mirror{}, &lines{}, prometheus.NewRegistry()
		metrics, err := reflector.NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		var attempts []time.Time
		p.fail = func(string) error {
			attempts = append(attempts, time.Now())
			return errAway
		}
		stop := run(t, newReflector(t, p, m, func(c *reflector.Config) { c.Logger, c.Metrics = log.logger(), metrics }))
		time.Sleep(10 * time.Minute)
		if calls := p.set(func() { p.fail = nil }); strings.Contains(calls, "watch") {
			t.Errorf("watch after a failed list: %s", calls)
		}
		pause := 100 * time.Millisecond
		for i := range attempts[1:] {
			if waited := attempts[i+1].Sub(attempts[i]); waited < pause/2 || waited > pause {
				t.Errorf("pause %d was %s, want %s at most, half of it at least", i, waited, pause)
			}
			pause = min(2*pause, 10*time.Second)
		}
		if log.String() != `level=WARN msg="list or watch failed, retrying" of=pods` {
			t.Errorf("log:\n%s", log)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if _, logged, _ := strings.Cut(log.String(), "\n"); logged != `level=INFO msg="list or watch recovered" of=pods` {
			t.Errorf("log:\n%s", logged)
		}
		if got := gather(t, registry); got != "current 1 failures_total "+fmt.Sprint(len(attempts))+" lists_total "+fmt.Sprint(len(attempts)+1) {
			t.Errorf("metrics: %s, after %d attempts", got, len(attempts))
		}
		p.set(func() {
			p.fail = func(string) error {
				attempts = append(attempts, time.Now())
				return errAway
			}
			p.next = func() error { return errAway }
		})
		before := len(attempts)
		p.create("a") // makes the watch return the error
		time.Sleep(time.Minute)
		synctest.Wait()
		// The first retry resumes the watch immediately, without a backoff.
		if waited := attempts[before+1].Sub(attempts[before]); waited > 100*time.Millisecond {
			t.Errorf("first delay after a period without failures: %s", waited)
		}
		began := time.Now()
		stop()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("Run returned %s after the end of its context", waited)
		}
	})
}

// gather returns the metrics of the only reflector.
func gather(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		m := family.GetMetric()[0]
		all = append(all, strings.TrimPrefix(family.GetName(), "mainstay_reflector_"), fmt.Sprint(m.GetGauge().GetValue()+m.GetCounter().GetValue()))
	}
	return strings.Join(all, " ")
}

// TestFailingHandler checks that an error or a panic of a function causes a new Replace.
func TestFailingHandler(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errAway },
		"panic": func() error { panic("unforeseen") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, m := newPods(t), &mirror{}
				run(t, newReflector(t, p, m, nil))
				synctest.Wait()
				times := 0
				m.mu.Lock()
				m.fail = func() error {
					if times++; times > 3 {
						return nil
					}
					return fail()
				}
				m.mu.Unlock()
				a := p.create("a")
				time.Sleep(time.Second)
				synctest.Wait()
				if there, replaced := m.read(); there != fmt.Sprintf("map[a:%d]", a) || replaced != 4 {
					t.Errorf("after %d lists: %s", replaced, there)
				}
				m.check(t)
			})
		})
	}
}

// TestNothingIsLost checks that despite failures, the mirror receives each change once and in order, and
// finally equals the storage.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, m := newPods(t), &mirror{}
				run(t, newReflector(t, p, m, nil))
				nothingIsLost(t, rand.New(rand.NewPCG(seed, 0)), p, m)
			})
		})
	}
}

// TestRunAll is like TestNothingIsLost, for two reflectors in one goroutine. If their watches cannot be
// polled, each reflector has its own goroutine.
func TestRunAll(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		for name, newStorage := range map[string]func(testing.TB) *pods{"polled": newPolledPods, "separate": newPods} {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					p, m := newStorage(t), &mirror{}
					other, same := newStorage(t), &mirror{}
					runAll(t, newReflector(t, p, m, nil), newReflector(t, other, same, nil))
					nothingIsLost(t, rand.New(rand.NewPCG(seed, 0)), p, m)
					nothingIsLost(t, rand.New(rand.NewPCG(seed, 1)), other, same)
				})
			})
		}
	}
}

// runAll runs reflectors until the end of the test.
func runAll(t *testing.T, all ...*reflector.Reflector) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		reflector.RunAll(ctx, all)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// nothingIsLost compares a mirror with its storage after random writes and failures.
func nothingIsLost(t *testing.T, random *rand.Rand, p *pods, m *mirror) {
	t.Helper()
	faults := rand.New(rand.NewPCG(random.Uint64(), 0)) // used under the locks of p
	perhaps := func(errs ...error) error {
		if faults.IntN(8) > 0 {
			return nil
		}
		return errs[faults.IntN(len(errs))]
	}
	p.set(func() {
		p.fail = func(string) error { return perhaps(errAway) }
		p.item = func() error { return perhaps(errAway) }
		p.next = func() error { return perhaps(errAway, rest.ErrWatchClosed, storage.TooOld(1, 2)) }
	})
	handler := rand.New(rand.NewPCG(random.Uint64(), 0)) // used under the lock of m
	m.mu.Lock()
	m.fail = func() error {
		switch handler.IntN(20) {
		case 0:
			return errAway
		case 1:
			panic(errAway)
		}
		return nil
	}
	m.mu.Unlock()
	there := map[string]int64{}
	for i := range 400 {
		name := fmt.Sprint("pod-", random.IntN(10))
		switch _, known := there[name]; {
		case !known:
			there[name] = p.create(name)
		case random.IntN(3) == 0:
			p.remove(name)
			delete(there, name)
		default:
			there[name] = p.change(name, fmt.Sprint(i))
		}
		if random.IntN(4) == 0 {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
	}
	p.set(func() { p.fail, p.item, p.next = nil, nil, nil })
	m.mu.Lock()
	m.fail = nil
	m.mu.Unlock()
	time.Sleep(time.Minute)
	synctest.Wait()
	if got, _ := m.read(); got != fmt.Sprint(there) {
		t.Errorf("the mirror contains %s\nthe storage %v", got, there)
	}
	m.check(t)
}
