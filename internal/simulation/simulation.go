// Package simulation controls the time and randomness of test servers. A Simulation has a clock that the test
// moves, and random numbers that depend on a seed. A nil *Simulation uses the machine's clock and real
// randomness.
//
// Use this package in code that writes or compares times that clients see (timestamps, expirations), or that
// generates UIDs and names. Do not use it for measurements (timeouts, intervals, audit timestamps), for leader
// election, where each candidate has its own clock, or for certificates that other programs sign.
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

// Config configures a Simulation.
type Config struct {
	// Time is the initial time of the clock, which then moves only when Advance is called. The zero time
	// selects a clock that runs like the machine's clock.
	Time time.Time
	// Seed determines UIDs and generated names; 0 selects real randomness.
	Seed uint64
	// UID is returned for all UIDs, for use in recordings; "" selects a different UID for each call.
	UID types.UID
}

// Simulation is the clock and the source of random numbers of a test server. All methods except Advance may be
// called on nil. It is safe for concurrent use.
type Simulation struct {
	config Config
	mu     struct {
		sync.Mutex
		offset time.Duration
		moved  chan struct{} // closed, and replaced, when the clock is moved
		alarms map[*alarm]bool
		uses   map[string]uint64
	}
}

// New returns a Simulation whose clock starts at config.Time.
func New(config Config) *Simulation {
	s := &Simulation{config: config}
	s.mu.moved, s.mu.alarms, s.mu.uses = make(chan struct{}), map[*alarm]bool{}, map[string]uint64{}
	return s
}

// Now returns the time of the clock.
func (s *Simulation) Now() time.Time {
	if s == nil {
		return time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nowLocked()
}

func (s *Simulation) nowLocked() time.Time {
	now := s.config.Time
	if now.IsZero() {
		now = time.Now()
	}
	return now.Add(s.mu.offset)
}

// Shifted returns the machine's time plus the sum of all movements of the clock. It is for credentials with
// real timestamps, such as certificates; they expire when the clock is moved far enough.
func (s *Simulation) Shifted() time.Time {
	if s == nil {
		return time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.mu.offset)
}

// Until returns the duration from the time of the clock to t.
func (s *Simulation) Until(t time.Time) time.Duration { return t.Sub(s.Now()) }

// alarm is a pending call of AfterFunc.
type alarm struct {
	at    time.Time
	f     func()
	timer *time.Timer // nil if the clock is stopped before the time
}

// AfterFunc calls f in its own goroutine when the clock reaches the time at. stop prevents the call if f has
// not started; it does not wait for f to return.
func (s *Simulation) AfterFunc(at time.Time, f func()) (stop func()) {
	if s == nil {
		timer := time.AfterFunc(time.Until(at), f)
		return func() { timer.Stop() }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &alarm{at: at, f: f}
	s.mu.alarms[a] = true
	s.setTimerLocked(a)
	return func() { s.removeAlarm(a) }
}

// setTimerLocked stops the timer of an alarm, and starts a new one if the clock runs or has already reached the
// time of the alarm.
func (s *Simulation) setTimerLocked(a *alarm) {
	if a.timer != nil {
		a.timer.Stop()
	}
	left := a.at.Sub(s.nowLocked())
	if stopped := !s.config.Time.IsZero(); stopped && left > 0 {
		return
	}
	a.timer = time.AfterFunc(left, func() {
		if s.removeAlarm(a) {
			a.f()
		}
	})
}

// removeAlarm removes an alarm and stops its timer. It returns false if the alarm had already been removed.
func (s *Simulation) removeAlarm(a *alarm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.mu.alarms[a]
	delete(s.mu.alarms, a)
	if a.timer != nil {
		a.timer.Stop()
	}
	return waiting
}

// Advance moves the clock by d, which may be negative. It must not be called on nil.
func (s *Simulation) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.offset += d
	close(s.mu.moved)
	s.mu.moved = make(chan struct{})
	for a := range s.mu.alarms {
		s.setTimerLocked(a)
	}
}

// Moved returns a channel that is closed when the clock is next moved. The channel of a nil *Simulation is nil.
func (s *Simulation) Moved() <-chan struct{} {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.moved
}

// Random returns a source of random numbers for a purpose, such as the name of an object. If there is a seed,
// the numbers depend only on the seed, the purpose, and the number of earlier calls for the same purpose. The
// caller owns the source, which is not safe for concurrent use.
func (s *Simulation) Random(purpose ...string) *rand.Rand {
	if s == nil || s.config.Seed == 0 {
		return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return s.seeded(strings.Join(purpose, "\x00"))
}

func (s *Simulation) seeded(purpose string) *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	input := binary.BigEndian.AppendUint64([]byte(purpose), s.config.Seed)
	input = binary.BigEndian.AppendUint64(input, s.mu.uses[purpose])
	s.mu.uses[purpose]++
	sum := sha256.Sum256(input)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])))
}

// UID returns a new UID (version 4) for a purpose, as described for Random.
func (s *Simulation) UID(purpose ...string) types.UID {
	if s != nil && s.config.UID != "" {
		return s.config.UID
	}
	if s == nil || s.config.Seed == 0 {
		return types.UID(uuid.NewString())
	}
	random := s.seeded("uid of " + strings.Join(purpose, "\x00"))
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], random.Uint64())
	binary.BigEndian.PutUint64(id[8:], random.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	return types.UID(id.String())
}

type contextKey struct{}

// With returns a copy of ctx that contains s, or ctx itself if s is nil.
func With(ctx context.Context, s *Simulation) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s)
}

// From returns the Simulation in ctx. If there is none, it returns nil, which is ready for use.
func From(ctx context.Context) *Simulation {
	s, _ := ctx.Value(contextKey{}).(*Simulation)
	return s
}

// Now returns the time of the Simulation in ctx, or the real time if there is none.
func Now(ctx context.Context) time.Time { return From(ctx).Now() }
