package reflector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/rest"
)

// RunAll calls Run for all reflectors, and returns when ctx ends. Reflectors whose watches are rest.Pollers
// share one goroutine, so that thousands of control planes need few goroutines. A slow function of a Config
// therefore delays the other reflectors.
func RunAll(ctx context.Context, reflectors []*Reflector) {
	g := &group{woken: make(chan struct{}, 1)}
	for _, r := range reflectors {
		r.prepared = false
		m := &member{reflector: r}
		m.wake = func() {
			m.pending.Store(true)
			g.wake()
		}
		m.pending.Store(true)
		g.members = append(g.members, m)
	}
	g.run(ctx)
}

// group runs reflectors in one goroutine.
type group struct {
	members []*member
	woken   chan struct{} // contains a token if a member is pending
	// separate counts the reflectors with their own goroutine.
	separate sync.WaitGroup
}

// wake does not block.
func (g *group) wake() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

// member is a reflector of a group.
type member struct {
	reflector *Reflector
	wake      func()
	pending   atomic.Bool // wake was called
	separate  bool        // it has its own goroutine

	watch rest.Watch // nil before it is opened, and after its end
	// opened is the time at which the watch was opened. advanced is set if the watch has made progress since
	// then; it is the argument of Reflector.ended.
	opened   time.Time
	advanced bool
	// retry is the time at which the watch may be opened again.
	retry time.Time
}

// run processes changes until ctx ends.
func (g *group) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		for _, m := range g.members {
			if m.due() && !m.step(ctx) && ctx.Err() == nil {
				w := m.watch
				m.watch, m.separate = nil, true
				g.separate.Go(func() { m.reflector.run(ctx, w) })
			}
		}
		if wait, waits := g.untilRetry(); waits {
			timer.Reset(wait)
		}
		select {
		case <-g.woken:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for _, m := range g.members {
		if !m.separate {
			m.close()
			m.reflector.config.Metrics.setCurrent(m.reflector.config.Name, false)
		}
	}
	g.separate.Wait()
}

// untilRetry returns the time until the next watch is opened, or false if no reflector waits.
func (g *group) untilRetry() (wait time.Duration, waits bool) {
	for _, m := range g.members {
		if m.separate || m.watch != nil {
			continue
		}
		if left := time.Until(m.retry); !waits || left < wait {
			wait, waits = left, true
		}
	}
	return wait, waits
}

// due reports whether a step can make progress.
func (m *member) due() bool {
	if m.separate {
		return false
	}
	return m.pending.Swap(false) && m.watch != nil || m.watch == nil && !time.Now().Before(m.retry)
}

// step opens the watch if necessary and applies the available events. It returns false if the watch cannot be
// polled.
func (m *member) step(ctx context.Context) bool {
	if m.watch == nil {
		opened, err := m.reflector.open(ctx)
		if err != nil {
			m.end(ctx, false, err)
			return true
		}
		m.watch, m.opened, m.advanced = opened, time.Now(), false
	}
	for {
		events, err := rest.Poll(ctx, m.watch, m.wake)
		if time.Since(m.opened) >= MaxBackoff {
			m.reflector.backoff = Backoff(MaxBackoff)
			m.advanced = true
		}
		switch {
		case errors.Is(err, rest.ErrWouldBlock):
			return false
		case err != nil:
			m.end(ctx, m.advanced, fmt.Errorf("watch %s: %w", m.reflector.config.Name, err))
			return true
		case len(events) == 0:
			return true
		}
		if err := m.reflector.apply(ctx, events); err != nil {
			m.end(ctx, false, err)
			return true
		}
		m.advanced = true
	}
}

// end closes the watch after an error.
func (m *member) end(ctx context.Context, advanced bool, err error) {
	m.close()
	m.retry = time.Time{}
	if ctx.Err() == nil && m.reflector.ended(advanced, err) {
		m.retry = time.Now().Add(m.reflector.backoff.Step())
	}
}

func (m *member) close() {
	if m.watch != nil {
		_ = m.watch.Close()
		m.watch = nil
	}
}
