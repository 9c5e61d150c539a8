package embedded

import (
	"strings"
	"sync"
	"sync/atomic"

	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	// maxCounted is the maximum number of prefixes with a cached count or newest revision, and
	// maxPageEnds is the maximum number of cached page ends.
	maxCounted  = 1024
	maxPageEnds = 256
)

// counts caches the number of keys in requested ranges, so that the cost of a list page depends only on the
// page. prefixes contains the number of keys below a prefix at the newest revision, and newest contains the
// revision of the newest commit below a prefix; commits update both. pageEnds contains the number of keys
// after a page, for the request for the next page at the same revision.
type counts struct {
	mu sync.Mutex
	// published points to Store.published. It changes only while mu is held, so that the counts are
	// consistent with it.
	published *atomic.Int64
	prefixes  map[string]*prefixCount
	newest    map[string]kv.Revision
	// pageEnds is a ring buffer; next is the index of its oldest entry when it is full.
	pageEnds []pageEnd
	next     int
}

// prefixCount is the number of keys under a prefix.
type prefixCount struct {
	n int64
	// known is false while the keys are being counted. n is then the change in the number of keys since the
	// start of the count.
	known bool
}

// pageEnd is the number of keys in [pos, end) at a revision. These are the keys of a range that follow a
// page.
type pageEnd struct {
	at       kv.Revision
	pos, end string
	n        int64
}

func newCounts(published *atomic.Int64) counts {
	return counts{published: published, prefixes: map[string]*prefixCount{}, newest: map[string]kv.Revision{}}
}

// reset empties the caches and publishes a revision.
func (c *counts) reset(published kv.Revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.prefixes)
	clear(c.newest)
	c.pageEnds, c.next = nil, 0
	c.published.Store(int64(published))
}

// publish publishes a revision. events are all events since the previously published revision.
func (c *counts) publish(events []kv.Event, published kv.Revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published.Store(int64(published))
	if len(c.prefixes) == 0 && len(c.newest) == 0 {
		return
	}
	for i := range events {
		c.addLocked(&events[i])
	}
}

func (c *counts) addLocked(ev *kv.Event) {
	n := int64(0)
	switch {
	case ev.Deleted:
		n = -1
	case ev.Prev == nil:
		n = 1
	}
	for i := range len(ev.Key) {
		if ev.Key[i] != '/' {
			continue
		}
		prefix := ev.Key[:i+1]
		if p := c.prefixes[prefix]; p != nil {
			p.n += n
		}
		if _, cached := c.newest[prefix]; cached {
			c.newest[prefix] = ev.Revision
		}
	}
}

// newestOf returns the revision of the newest commit below a prefix. At the first call for a prefix, this
// revision is not known, and the published revision is returned instead.
func (c *counts) newestOf(prefix string) kv.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	if newest, ok := c.newest[prefix]; ok {
		return newest
	}
	published := kv.Revision(c.published.Load())
	if len(c.newest) < maxCounted {
		c.newest[prefix] = published
	}
	return published
}

// counting is the state of a count while a range is read.
type counting struct {
	// at is the revision to read at.
	at kv.Revision
	// total is the number of keys in the range, if it is known.
	total int64
	known bool
	// prefix is the cache entry that receives the total; nil if the total is not added to the cache.
	prefix *prefixCount
	// pageEnd is the first cached page end in the range, if hasPageEnd is true.
	pageEnd    pageEnd
	hasPageEnd bool
}

// begin determines the revision of a range and returns its cached count.
func (c *counts) begin(req *kv.RangeRequest) counting {
	c.mu.Lock()
	defer c.mu.Unlock()
	published := kv.Revision(c.published.Load())
	counted := counting{at: req.At}
	if req.At == 0 {
		counted.at = published
	}
	if counted.at == published && req.End == kv.PrefixEnd(req.Start) && strings.HasSuffix(req.Start, "/") {
		c.findPrefixLocked(req, &counted)
	}
	if !counted.known && req.Limit > 0 && !req.CountOnly {
		c.findPageEndLocked(req, &counted)
	}
	return counted
}

// findPrefixLocked finds the cache entry of the prefix. It adds an entry if there is none and the
// request counts all keys.
func (c *counts) findPrefixLocked(req *kv.RangeRequest, counted *counting) {
	switch p := c.prefixes[req.Start]; {
	case p == nil && (req.CountOnly || req.WithCount):
		if len(c.prefixes) >= maxCounted {
			for other := range c.prefixes {
				delete(c.prefixes, other)
				break
			}
		}
		counted.prefix = &prefixCount{}
		c.prefixes[req.Start] = counted.prefix
	case p != nil && p.known:
		counted.total, counted.known = p.n, true
	}
}

// findPageEndLocked finds the first cached page end in the range, if there is one.
func (c *counts) findPageEndLocked(req *kv.RangeRequest, counted *counting) {
	for i := range c.pageEnds {
		r := &c.pageEnds[i]
		if r.at == counted.at && r.end == req.End && r.pos >= req.Start && (!counted.hasPageEnd || r.pos < counted.pageEnd.pos) {
			counted.pageEnd, counted.hasPageEnd = *r, true
		}
	}
}

// recordPosition records that the read has reached a key after n keys. If a cached page end starts at this
// key, the total is known.
func (k *counting) recordPosition(key []byte, n int64) {
	if k.hasPageEnd && !k.known && string(key) >= k.pageEnd.pos {
		k.total, k.known = n+k.pageEnd.n, true
	}
}

// end caches the result for the range.
func (c *counts) end(req *kv.RangeRequest, counted *counting, res *kv.RangeResult) {
	if counted.prefix == nil && (!counted.known || !res.More) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := counted.prefix; p != nil && c.prefixes[req.Start] == p {
		if counted.known {
			p.n, p.known = p.n+counted.total, true
		} else {
			delete(c.prefixes, req.Start)
		}
	}
	if !counted.known || !res.More || len(res.Entries) == 0 {
		return
	}
	r := pageEnd{
		at: counted.at, end: req.End,
		pos: res.Entries[len(res.Entries)-1].Key + "\x00",
		n:   counted.total - int64(len(res.Entries)),
	}
	if len(c.pageEnds) < maxPageEnds {
		c.pageEnds = append(c.pageEnds, r)
		return
	}
	c.pageEnds[c.next] = r
	c.next = (c.next + 1) % maxPageEnds
}
