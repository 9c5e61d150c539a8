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

// Config configures a Control. All fields except Stats, ByCount, Reflectors and Logger are required.
type Config struct {
	// Seats is the total number of seats, more than 0. Most requests occupy one seat during their
	// execution.
	Seats int
	// Schemas and Levels are the mandatory objects. Each is used if no object with its name is stored. They
	// are not modified.
	Schemas []*flowcontrolv1.FlowSchema
	Levels  []*flowcontrolv1.PriorityLevelConfiguration
	// MaxWait is the maximum queuing time of a request without a deadline, up to one minute.
	MaxWait time.Duration
	// Stats returns the size of the requested resource's lists, or false if it is unknown. It is
	// called concurrently, with the context of a request, and must not block. If it is nil, the
	// size is always unknown.
	Stats func(context.Context) (Stats, bool)
	// ByCount estimates the seats of lists by the number of objects instead of their size (feature
	// gate SizeBasedListCostEstimate disabled).
	ByCount    bool
	Metrics    *Metrics
	Reflectors *reflector.Metrics // nil disables metrics
	Logger     *slog.Logger       // nil disables logging
}

// Control classifies requests, and queues or rejects them. It is safe for concurrent use.
type Control struct {
	reflector.Followers
	config Config
	// seed makes hashes unpredictable. Clients could otherwise choose names that hash to the queues
	// of other flows.
	seed    maphash.Seed
	watches watches
	kinds   requestKinds
	// current is the configuration in effect; nil until a request needs it.
	current atomic.Pointer[configuration]
	// adjustAt is the time of the next adjustment of borrowed seats, in nanoseconds since created.
	created  time.Time
	adjustAt atomic.Int64

	// mu guards the following fields and writes of current.
	mu      sync.Mutex
	schemas map[types.NamespacedName]*flowcontrolv1.FlowSchema
	levels  map[types.NamespacedName]*flowcontrolv1.PriorityLevelConfiguration
	// activeLevels contains the configured levels and the deleted levels with remaining requests, by name.
	activeLevels map[string]*level
	// fairFrac is the fraction of its target demand that each level received in the last adjustment.
	fairFrac float64
}

// New returns a Control with the mandatory schemas and levels. The caller must run its Followers,
// which report the stored objects.
func New(config Config) *Control {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	c := &Control{
		config: config, seed: maphash.MakeSeed(), kinds: newKinds(), created: now,
		schemas:      map[types.NamespacedName]*flowcontrolv1.FlowSchema{},
		levels:       map[types.NamespacedName]*flowcontrolv1.PriorityLevelConfiguration{},
		activeLevels: map[string]*level{},
	}
	c.adjustAt.Store(int64(adjustmentPeriod))
	c.Followers = c.newFollowers()
	return c
}

// Close removes the metrics of the Control. Call it when the Control is no longer used.
func (c *Control) Close() { c.config.Metrics.remove(c) }

// configured returns the current configuration, and builds it on the first call.
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

// reconfigure applies a change of schemas or levels. Before the first request, it does nothing,
// because a server creates these objects one by one when it starts for the first time. The caller
// must hold c.mu.
func (c *Control) reconfigure() {
	if c.current.Load() != nil {
		c.configure()
	}
}

// removeIdleLevels removes the deleted levels that have no more requests.
func (c *Control) removeIdleLevels() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configure()
}
