package flowcontrol

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Config configures a Control. All fields but Stats, Logger and Reflectors are
// required.
type Config struct {
	// Seats is how many requests, of one seat each, are executed at a time; more than 0.
	Seats int
	// Schemas and Levels are the mandatory objects. Each is in effect while no object of its name
	// is stored.
	Schemas []*flowcontrolv1.FlowSchema
	Levels  []*flowcontrolv1.PriorityLevelConfiguration
	// Wait is how long a request without a deadline may wait for its turn.
	Wait time.Duration
	// Stats returns the size of the lists of the requested resource, or false if it is unknown. It
	// is called with the context of each list and must not block. A nil Stats is always unknown.
	Stats func(context.Context) (Stats, bool)
	// ByCount estimates lists by how many objects they read, not by their bytes
	// (SizeBasedListCostEstimate=false).
	ByCount    bool
	Metrics    *Metrics
	Reflectors *reflector.Metrics // nil disables metrics
	Logger     *slog.Logger       // nil discards
}

// Control classifies requests and queues them. It is safe for concurrent use.
type Control struct {
	reflector.Followers
	config Config
	// seed prevents clients from choosing names that hash to the queues of other flows.
	seed    maphash.Seed
	watches watches
	kinds   kinds
	// current is the configuration in effect; nil until a request needs it.
	current atomic.Pointer[configuration]
	// adjustAt is the time of the next adjustment of borrowed seats, in nanoseconds since begun.
	begun    time.Time
	adjustAt atomic.Int64

	// mu guards the following fields and writes of current.
	mu      sync.Mutex
	schemas map[types.NamespacedName]*flowcontrolv1.FlowSchema
	levels  map[types.NamespacedName]*flowcontrolv1.PriorityLevelConfiguration
	// made are the levels by name: the current ones, and deleted ones with remaining requests.
	made map[string]*level
	// adjusted is when levels lent to each other last, fairFrac the part of its
	// demand that each was given.
	adjusted time.Time
	fairFrac float64
}

// New returns a Control with the mandatory schemas and levels. Its Followers deliver the stored
// ones.
func New(config Config) *Control {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	c := &Control{
		config: config, seed: maphash.MakeSeed(), kinds: newKinds(), begun: now, adjusted: now,
		schemas: map[types.NamespacedName]*flowcontrolv1.FlowSchema{},
		levels:  map[types.NamespacedName]*flowcontrolv1.PriorityLevelConfiguration{},
		made:    map[string]*level{},
	}
	c.adjustAt.Store(int64(adjustmentPeriod))
	c.Followers = c.newFollowers()
	return c
}

// Close ends the measurement of a Control that is not used any more.
func (c *Control) Close() { c.config.Metrics.remove(c) }

// configured returns the configuration in effect.
func (c *Control) configured() *configuration {
	if current := c.current.Load(); current != nil {
		return current
	}
	c.config.Metrics.add(c) // before locking c.mu: the lock of Metrics is acquired first
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.Load() == nil {
		c.configure()
	}
	return c.current.Load()
}

// changed applies a change of schemas or levels. It does nothing before the first request, because
// the first start writes these objects one by one.
func (c *Control) changed() {
	if c.current.Load() != nil {
		c.configure()
	}
}

// forget drops deleted levels without requests.
func (c *Control) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configure()
}
