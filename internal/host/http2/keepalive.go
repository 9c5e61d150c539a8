package http2

import (
	"crypto/rand"
	"time"
)

// keepalive monitors a connection with one timer. The timer is set to the earliest possible deadline, so that
// reads, writes and streams need not reset it.
type keepalive struct {
	timer        *time.Timer
	lastRead     time.Duration // by the connection's clock, like all times here
	idleSince    time.Duration // end of the last stream; valid while there are no streams
	pingSent     time.Duration // time of the unanswered PING; 0 if there is none
	ping         [8]byte       // data of the last PING
	writeStarted time.Duration // start of the current write
}

// startKeepalive starts the timer.
func (c *conn) startKeepalive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.lastRead, c.idleSince = now, now
	c.timer = time.AfterFunc(time.Hour, c.keepaliveDue)
	c.timer.Reset(c.untilDue(now))
}

// stopKeepalive stops the timer. c.mu must be held.
func (c *conn) stopKeepalive() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// keepaliveDue runs when the timer fires. It closes a dead connection, sends GOAWAY on an idle connection, and
// sends a PING if no data was received for some time.
func (c *conn) keepaliveDue() {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	now := c.clock()
	set := &c.settings
	dead := set.writeByte > 0 && c.writing && now-c.writeStarted >= set.writeByte ||
		c.pingSent > 0 && now-c.pingSent >= set.pingTimeout
	if dead {
		c.mu.Unlock()
		logTo(c.hs, "http2: closing the connection from %s: the client neither responds to a PING nor reads data", c.remote)
		_ = c.net.Close() // the reading goroutine then tears the connection down
		return
	}
	if set.idle > 0 && len(c.streams) == 0 && now-c.idleSince >= set.idle {
		c.goAway()
	}
	if set.readIdle > 0 && c.pingSent == 0 && now-c.lastRead >= set.readIdle {
		c.pingSent = now
		_, _ = rand.Read(c.ping[:])
		_ = c.frames.WritePing(false, c.ping)
	}
	c.timer.Reset(c.untilDue(now))
	c.flush()
	c.mu.Unlock()
}

// untilDue returns the time until the next possible deadline. c.mu must be held.
func (c *conn) untilDue(now time.Duration) time.Duration {
	next := time.Hour
	due := func(since, limit time.Duration) {
		if limit > 0 {
			next = min(next, max(since+limit-now, time.Millisecond))
		}
	}
	set := &c.settings
	switch {
	case c.goAwaySent:
	case len(c.streams) == 0:
		due(c.idleSince, set.idle)
	default:
		due(now, set.idle)
	}
	if c.pingSent > 0 {
		due(c.pingSent, set.pingTimeout)
	} else {
		due(c.lastRead, set.readIdle)
	}
	if c.writing {
		due(c.writeStarted, set.writeByte)
	} else {
		due(now, set.writeByte)
	}
	return next
}
