package http2

import (
	"crypto/rand"
	"time"
)

// keeper watches over a connection with one timer, set to the first moment at
// which anything could be due, so that nothing that happens has to touch it.
type keeper struct {
	timer     *time.Timer
	lastRead  time.Duration // by the connection's clock, as all times here
	idleSince time.Duration // while there are no streams
	pinged    time.Duration // when a PING was sent; 0 when it is answered
	ping      [8]byte
	writeFrom time.Duration // when the write under way began
}

// keep starts watching.
func (c *conn) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.lastRead, c.idleSince = now, now
	c.timer = time.AfterFunc(time.Hour, c.check)
	c.timer.Reset(c.nextCheck(now))
}

// stopKeeping ends it. c.mu is held.
func (c *conn) stopKeeping() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// check does what is due.
func (c *conn) check() {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	now := c.clock()
	set := &c.settings
	dead := set.stall > 0 && c.writing && now-c.writeFrom >= set.stall ||
		c.pinged > 0 && now-c.pinged >= set.pingTimeout
	if dead {
		c.mu.Unlock()
		logTo(c.hs, "http2: closing the connection of %s: nothing heard or taken", c.remote)
		_ = c.net.Close() // the goroutine that reads does the rest
		return
	}
	if set.idle > 0 && len(c.streams) == 0 && now-c.idleSince >= set.idle {
		c.goAway()
	}
	if set.pingAfter > 0 && c.pinged == 0 && now-c.lastRead >= set.pingAfter {
		c.pinged = now
		_, _ = rand.Read(c.ping[:])
		_ = c.frames.WritePing(false, c.ping)
	}
	c.timer.Reset(c.nextCheck(now))
	c.flush()
	c.mu.Unlock()
}

// nextCheck is how long nothing can be due. c.mu is held.
func (c *conn) nextCheck(now time.Duration) time.Duration {
	next := time.Hour
	due := func(since, limit time.Duration) {
		if limit > 0 {
			next = min(next, max(since+limit-now, time.Millisecond))
		}
	}
	set := &c.settings
	switch {
	case c.leaving:
	case len(c.streams) == 0:
		due(c.idleSince, set.idle)
	default:
		due(now, set.idle)
	}
	if c.pinged > 0 {
		due(c.pinged, set.pingTimeout)
	} else {
		due(c.lastRead, set.pingAfter)
	}
	if c.writing {
		due(c.writeFrom, set.stall)
	} else {
		due(now, set.stall)
	}
	return next
}
