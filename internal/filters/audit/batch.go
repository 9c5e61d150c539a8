package audit

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Limits of queued events, in addition to the limit of their number. kube-apiserver has no such
// limits, so an unresponsive webhook can exhaust its memory.
const (
	maxQueued     = 256 << 20 // bytes
	maxDeliveries = 100       // concurrent batches per webhook
)

// Reasons for dropping an event instead of queuing it.
var (
	errQueueFull = errors.New("audit buffer queue blocked")
	errShutDown  = errors.New("audit backend shut down")
)

// nameBuffered is the value of the metric label plugin for events dropped by the queue.
const nameBuffered = "buffered"

// queue collects the encoded events of a backend into batches.
type queue struct {
	backend    *backend
	options    *BatchOptions
	throttle   *rate.Limiter // nil without throttling
	items      chan []byte
	bytes      atomic.Int64 // total size of the items that are queued or being sent
	deliveries errgroup.Group

	closing sync.RWMutex // held for reading by tryAdd and for writing by close
	closed  bool
}

func newQueue(b *backend, deliveries int) *queue {
	options := &b.options.Batch
	q := &queue{backend: b, options: options, items: make(chan []byte, options.BufferSize)}
	if options.ThrottleEnable {
		q.throttle = rate.NewLimiter(rate.Limit(options.ThrottleQPS), options.ThrottleBurst)
	}
	q.deliveries.SetLimit(deliveries)
	return q
}

// add copies an item into the queue, or counts it as lost. It does not block.
func (q *queue) add(item []byte) {
	if err := q.tryAdd(item); err != nil {
		q.backend.losses.count(nameBuffered, 1, err)
	}
}

func (q *queue) tryAdd(item []byte) error {
	q.closing.RLock()
	defer q.closing.RUnlock()
	if q.closed {
		return errShutDown
	}
	size := int64(len(item))
	if q.bytes.Add(size) > maxQueued {
		q.bytes.Add(-size)
		return errQueueFull
	}
	select {
	case q.items <- bytes.Clone(item):
		return nil
	default:
		q.bytes.Add(-size)
		return errQueueFull
	}
}

// close closes the queue. A closed queue rejects new items. close may be called more than once.
func (q *queue) close() {
	q.closing.Lock()
	defer q.closing.Unlock()
	if !q.closed {
		q.closed = true
		close(q.items)
	}
}

// run sends batches until ctx ends. It then sends the remaining events for up to flushTimeout.
func (q *queue) run(ctx context.Context, flushTimeout time.Duration) {
	stop := context.AfterFunc(ctx, func() {
		q.close()
		time.AfterFunc(flushTimeout, q.backend.cancelSend)
	})
	defer stop()
	for {
		batch := q.collect()
		if len(batch) == 0 {
			break
		}
		if q.throttle != nil {
			_ = q.throttle.Wait(q.backend.sendContext) // fails only after the flush timeout; send then returns an error
		}
		for _, part := range q.split(batch) {
			q.deliveries.Go(func() error { q.send(part); return nil })
		}
	}
	_ = q.deliveries.Wait()
}

// collect waits for the next batch and returns it. The batch is empty only if the queue is closed and empty.
func (q *queue) collect() [][]byte {
	first, open := <-q.items
	if !open {
		return nil
	}
	batch := [][]byte{first}
	if q.options.MaxSize == 1 {
		return batch
	}
	wait := time.NewTimer(q.options.MaxWait)
	defer wait.Stop()
	for len(batch) < q.options.MaxSize {
		select {
		case item, open := <-q.items:
			if !open {
				return batch
			}
			batch = append(batch, item)
		case <-wait.C:
			return batch
		}
	}
	return batch
}

// split divides a batch into parts of at most MaxBatchSize bytes. A larger item becomes a part of
// its own. If truncation is disabled, the whole batch is one part.
func (q *queue) split(batch [][]byte) [][][]byte {
	limit := &q.backend.options.Truncate
	if !limit.Enabled {
		return [][][]byte{batch}
	}
	var parts [][][]byte
	size, begin := int64(0), 0
	for i, item := range batch {
		if size += int64(len(item)); size > limit.MaxBatchSize && i > begin {
			parts = append(parts, batch[begin:i])
			begin, size = i, int64(len(item))
		}
	}
	return append(parts, batch[begin:])
}

func (q *queue) send(batch [][]byte) {
	b := q.backend
	if lost, err := b.output.send(b.sendContext, batch); err != nil {
		b.losses.count(b.output.name(), lost, err)
	}
	for _, item := range batch {
		q.bytes.Add(-int64(len(item)))
	}
}
