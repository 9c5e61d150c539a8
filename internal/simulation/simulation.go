// Package simulation controls time and randomness in test servers: a World has a clock that a test
// moves, and random numbers from a seed. A nil World is the real one. Code that writes or compares
// client-visible times (timestamps, expirations), or generates UIDs and names, uses this package.
// Measurements (timeouts, intervals, audit timestamps), elections, whose candidates have their own
// clocks, and certificates that others sign do not.
package simulation

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures a World.
type Config struct {
	// Time stops the clock at this time until it is moved. The zero time uses the machine's clock.
	Time time.Time
	// Seed, unless 0, makes uids and generated names follow from it.
	Seed uint64
}

// World is a simulated world, or, where it is nil, the real one. It is safe for concurrent
// use.
type World struct {
	config Config
	mu     struct {
		sync.Mutex
		offset time.Duration
		moved  chan struct{} // closed, and replaced, when the clock is moved
		alarms map[*alarm]bool
		uses   map[string]uint64
	}
}

// New returns a world.
func New(config Config) *World {
	w := &World{config: config}
	w.mu.moved, w.mu.alarms, w.mu.uses = make(chan struct{}), map[*alarm]bool{}, map[string]uint64{}
	return w
}

// Now returns the time.
func (w *World) Now() time.Time {
	if w == nil {
		return time.Now()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nowLocked()
}

func (w *World) nowLocked() time.Time {
	now := w.config.Time
	if now.IsZero() {
		now = time.Now()
	}
	return now.Add(w.mu.offset)
}

// Shifted returns the machine's time plus the movements of the clock. It is for credentials with
// real timestamps, such as certificates: they expire when the clock is moved far enough.
func (w *World) Shifted() time.Time {
	if w == nil {
		return time.Now()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.mu.offset)
}

// Until returns how long it is until a time, if the clock is not moved.
func (w *World) Until(t time.Time) time.Duration { return t.Sub(w.Now()) }

// alarm is a call of AfterFunc.
type alarm struct {
	at    time.Time
	f     func()
	timer *time.Timer // nil while the clock is stopped before its time
}

// AfterFunc calls f in its own goroutine when the clock reaches a time. stop cancels the call if it
// has not started.
func (w *World) AfterFunc(at time.Time, f func()) (stop func()) {
	if w == nil {
		timer := time.AfterFunc(time.Until(at), f)
		return func() { timer.Stop() }
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &alarm{at: at, f: f}
	w.mu.alarms[a] = true
	w.setLocked(a)
	return func() { w.take(a) }
}

// setLocked sets the timer of an alarm by the clock as it is now.
func (w *World) setLocked(a *alarm) {
	if a.timer != nil {
		a.timer.Stop()
	}
	left := a.at.Sub(w.nowLocked())
	if stands := !w.config.Time.IsZero(); stands && left > 0 {
		return
	}
	a.timer = time.AfterFunc(left, func() {
		if w.take(a) {
			a.f()
		}
	})
}

// take removes an alarm, and reports whether it existed.
func (w *World) take(a *alarm) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.mu.alarms[a]
	delete(w.mu.alarms, a)
	if a.timer != nil {
		a.timer.Stop()
	}
	return waiting
}

// Advance moves the clock. It must not be called on nil.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.offset += d
	close(w.mu.moved)
	w.mu.moved = make(chan struct{})
	for a := range w.mu.alarms {
		w.setLocked(a)
	}
}

// Moved returns a channel that is closed when the clock is moved; nil in the real world.
func (w *World) Moved() <-chan struct{} {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.moved
}

// Random returns random numbers for a purpose, such as the name of an object. With a seed, they
// depend on the seed, the purpose and the number of earlier calls for it only.
func (w *World) Random(purpose ...string) *rand.Rand {
	if w == nil || w.config.Seed == 0 {
		return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return w.following(strings.Join(purpose, "\x00"))
}

func (w *World) following(purpose string) *rand.Rand {
	w.mu.Lock()
	defer w.mu.Unlock()
	input := binary.BigEndian.AppendUint64([]byte(purpose), w.config.Seed)
	input = binary.BigEndian.AppendUint64(input, w.mu.uses[purpose])
	w.mu.uses[purpose]++
	sum := sha256.Sum256(input)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])))
}

// UID returns a new uid for a purpose, as Random has it.
func (w *World) UID(purpose ...string) types.UID {
	if w == nil || w.config.Seed == 0 {
		return types.UID(uuid.NewString())
	}
	random := w.following("uid of " + strings.Join(purpose, "\x00"))
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], random.Uint64())
	binary.BigEndian.PutUint64(id[8:], random.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	return types.UID(id.String())
}

type worldKey struct{}

// With returns a context of a world.
func With(ctx context.Context, w *World) context.Context {
	if w == nil {
		return ctx
	}
	return context.WithValue(ctx, worldKey{}, w)
}

// From returns the world of a context; nil, the real one, if there is none.
func From(ctx context.Context) *World {
	w, _ := ctx.Value(worldKey{}).(*World)
	return w
}

// Now returns the time of a context's world.
func Now(ctx context.Context) time.Time { return From(ctx).Now() }
