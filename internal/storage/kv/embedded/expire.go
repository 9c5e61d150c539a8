package embedded

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// expireBatch is the maximum number of expired keys that one step deletes.
const expireBatch = 512

// expiries tracks the time of the next expiration.
type expiries struct {
	mu struct {
		sync.Mutex
		// next is in Unix seconds; 0 if no key expires.
		next int64
	}
	// sooner receives a value when next becomes smaller.
	sooner chan struct{}
}

func (x *expiries) init() { x.sooner = make(chan struct{}, 1) }

// wake makes expireKeys run at a key's expiration time, in Unix seconds. It does nothing if at is 0.
func (x *expiries) wake(at int64) {
	if at == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.next == 0 || at < x.mu.next {
		x.mu.next = at
		select {
		case x.sooner <- struct{}{}:
		default:
		}
	}
}

// takeNext returns next and sets it to 0.
func (x *expiries) takeNext() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.mu.next
	x.mu.next = 0
	return at
}

func (x *expiries) peek() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.mu.next
}

// expirySecond returns now plus ttl in Unix seconds, rounded up.
func expirySecond(now time.Time, ttl time.Duration) int64 {
	at := now.Add(ttl)
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

// expireKeys deletes expired keys until Close.
func (s *Store) expireKeys() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, moved := time.Hour, s.simulation.Moved()
		if at := s.expiries.peek(); at > 0 {
			wait = min(wait, s.simulation.Until(time.Unix(at, 0)))
		}
		timer.Reset(wait)
		select {
		case <-s.ctx.Done():
			return
		case <-s.expiries.sooner:
			continue
		case <-moved:
		case <-timer.C:
		}
		now := s.simulation.Now().Unix()
		if at := s.expiries.peek(); at == 0 || at > now {
			continue
		}
		s.expireDue(now)
	}
}

// expireDue deletes the keys that have expired at now, in Unix seconds, and determines the next expiration.
// Failed deletions are retried a second later.
func (s *Store) expireDue(now int64) {
	for {
		s.expiries.takeNext()
		due, next, err := s.expiredKeys(now)
		s.expiries.wake(next)
		if err == nil && len(due) > 0 {
			err = s.deleteExpired(due)
		}
		if err != nil {
			s.logFailure("delete expired keys", err)
			s.expiries.wake(now + 1)
			return
		}
		if len(due) < expireBatch {
			return
		}
	}
}

// expiredKeys returns at most expireBatch expired keys, and the expiration time of the next key in Unix
// seconds, or 0 if there is none.
func (s *Store) expiredKeys(now int64) (due []expiry, next int64, err error) {
	e, err := s.acquireEngine()
	if err != nil {
		return nil, 0, err
	}
	defer s.release()
	it, err := e.newExpiryIter()
	if err != nil {
		return nil, 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		x, err := decodeExpiry(it.Key(), it.Value())
		if err != nil {
			return nil, 0, e.wrapError("read the expiry index", err)
		}
		if x.second > now || len(due) == expireBatch {
			return due, x.second, nil
		}
		due = append(due, x)
	}
	return due, 0, e.wrapError("read the expiry index", it.Error())
}

// deleteExpired deletes each key in its own transaction, unless the key was written again.
func (s *Store) deleteExpired(due []expiry) error {
	txns := make([]txn, len(due))
	var errs []error
	for i, x := range due {
		t := &txns[i]
		t.ops = []kv.Op{{Key: x.key, Expect: x.revision, Kind: kv.OpDelete}}
		if err := s.evaluate(t); err != nil {
			errs = append(errs, err)
			break
		}
	}
	for i := range txns {
		if err := s.waitDurable(s.ctx, &txns[i]); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return errors.Join(errs...)
}

func (e *engine) newExpiryIter() (*pebble.Iterator, error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixExpiry}, UpperBound: []byte{prefixExpiry + 1}})
	if err != nil {
		return nil, e.wrapError("read the expiry index", err)
	}
	return it, nil
}

// firstExpiry returns the expiration time of the first key that expires, in Unix seconds; 0 if no key
// expires.
func (e *engine) firstExpiry() (int64, error) {
	it, err := e.newExpiryIter()
	if err != nil {
		return 0, err
	}
	defer it.Close()
	if !it.First() {
		return 0, e.wrapError("read the expiry index", it.Error())
	}
	x, err := decodeExpiry(it.Key(), it.Value())
	if err != nil {
		return 0, e.wrapError("read the expiry index", err)
	}
	return x.second, nil
}
