package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// A lease is expensive for etcd, but a key with a lease is not. Keys therefore share leases, by
// kube-apiserver's rules: the expiry of a key may be late by up to 5 % of its time to live, but at most by
// Config.LeaseReuse, and a lease has at most 1,000 keys, because etcd deletes them in one transaction.
const (
	leaseSlackPart = 20
	maxLeaseKeys   = 1000
)

// leases contains the current lease for each time to live, in seconds.
type leases struct {
	mu   sync.Mutex
	open map[int64]*lease
	// granting is a lock that is held while a lease is requested from etcd.
	granting chan struct{}
}

type lease struct {
	id   int64
	ends time.Time // lower bound of the expiry time in etcd
	keys int
}

func (l *leases) init() {
	l.open = make(map[int64]*lease)
	l.granting = make(chan struct{}, 1)
}

// find returns the ID of a lease that lasts for at least ttl more seconds, and counts another key for it. It
// returns 0 if there is no such lease.
func (l *leases) find(ttl int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.open[ttl]
	if found == nil || found.keys >= maxLeaseKeys || time.Until(found.ends) < time.Duration(ttl)*time.Second {
		return 0
	}
	found.keys++
	return found.id
}

func (l *leases) put(ttl int64, granted *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, found := range l.open {
		if time.Until(found.ends) < time.Duration(other)*time.Second {
			delete(l.open, other) // remove leases that are too old to be reused, so that the map does not grow with distinct TTLs
		}
	}
	l.open[ttl] = granted
}

// forget drops all leases, so that the next keys use new leases.
func (l *leases) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.open)
}

// lease returns the ID of a lease that lasts at least ttl from now.
func (s *Store) lease(ctx context.Context, ttl time.Duration) (int64, error) {
	want := ceilSeconds(ttl)
	if id := s.leases.find(want); id != 0 {
		return id, nil
	}
	select {
	case s.leases.granting <- struct{}{}:
		defer func() { <-s.leases.granting }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if id := s.leases.find(want); id != 0 {
		return id, nil
	}
	lasts := want + max(0, min(want/leaseSlackPart, int64(s.config.LeaseReuse/time.Second)))
	began := time.Now()
	// A repeated request may create a second lease, which has no keys and expires.
	a := callSpec{name: "lease", timeout: s.config.RequestTimeout, attempt: s.config.RequestTimeout * 2 / 5, repeat: repeatRead}
	granted, err := call(ctx, s, a, func(ctx context.Context, _ ...grpc.CallOption) (*clientv3.LeaseGrantResponse, error) {
		return s.client.Grant(ctx, lasts)
	})
	if err != nil {
		return 0, fmt.Errorf("grant a lease of %ds: %w", lasts, err)
	}
	s.leases.put(want, &lease{id: int64(granted.ID), ends: began.Add(time.Duration(lasts) * time.Second), keys: 1})
	return int64(granted.ID), nil
}

// Expiries returns the expiration times of all keys with a lease, by key, with a precision of one second. It
// sends one request per lease. The caller owns the map. It returns the error of the first failed request.
func (s *Store) Expiries(ctx context.Context) (map[string]time.Time, error) {
	ctx, leave, err := s.beginCall(ctx, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	all, err := call(ctx, s, s.largeRead().named("lease"), func(ctx context.Context, _ ...grpc.CallOption) (*clientv3.LeaseLeasesResponse, error) {
		return s.client.Leases(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	expiries := make(map[string]time.Time)
	for _, lease := range all.Leases {
		left, err := call(ctx, s, s.largeRead().named("lease"), func(ctx context.Context, _ ...grpc.CallOption) (*clientv3.LeaseTimeToLiveResponse, error) {
			return s.client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		})
		if err != nil {
			return nil, fmt.Errorf("read lease %x: %w", lease.ID, err)
		}
		ends := time.Now().Add(time.Duration(left.TTL) * time.Second)
		for _, key := range left.Keys {
			expiries[string(key)] = ends
		}
	}
	return expiries, nil
}
