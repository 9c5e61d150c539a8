package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// polled is a storage whose watches are read with Poll, and with Next only after ErrWouldBlock.
type polled struct{ storage.Interface }

func (p polled) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	w, err := p.Interface.Watch(ctx, namespace, options)
	if err != nil {
		return nil, err
	}
	return newPolling(w), nil
}

// polling is a watch whose Next calls Poll.
type polling struct {
	rest.Watch
	woken chan struct{}
	wake  func()
}

func newPolling(w rest.Watch) *polling {
	p := &polling{Watch: w, woken: make(chan struct{}, 1)}
	p.wake = func() {
		select {
		case p.woken <- struct{}{}:
		default:
		}
	}
	return p
}

func (p *polling) Next(ctx context.Context) ([]rest.Event, error) {
	for {
		events, err := rest.Poll(ctx, p.Watch, p.wake)
		if errors.Is(err, rest.ErrWouldBlock) {
			return p.Watch.Next(ctx)
		}
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-p.woken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TestPolled runs the suite with polled watches, with a log of default size and with a minimal log.
func TestPolled(t *testing.T) {
	t.Parallel()
	for _, limits := range []cache.LogLimits{{}, {Changes: 2}} {
		t.Run(fmt.Sprint(limits.Changes), func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, storagetest.Setup{Backend: openEmbedded, Decorate: func(t testing.TB, store *storage.Store) storage.Interface {
				return polled{decorated(limits)(t, store)}
			}})
		})
	}
}

// TestPollWakes checks that a waiting watch is woken by its next event and when the cache is closed, but not
// by other events or after the watch was closed.
func TestPollWakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, cache.LogLimits{})
	feed, err := cache.NewFeed(cache.FeedConfig{Backend: f.backend, Prefix: "/registry"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	stopped := make(chan error)
	go func() { stopped <- feed.Run(ctx) }()
	for !feed.Running() {
		runtime.Gosched()
	}
	f.cacher = newCacher(t, f.store, feed)
	from := rest.ListOptions{ResourceVersion: fmt.Sprint(f.create("a").Revision())}
	all, other, ended := newPolling(f.watch(f.cacher, "ns", from)), newPolling(f.watch(f.cacher, "ns2", from)), newPolling(f.watch(f.cacher, "", from))
	for _, p := range []*polling{all, other, ended} {
		if events, err := rest.Poll(f.ctx, p.Watch, p.wake); err != nil || len(events) > 0 {
			t.Fatalf("polled %v, %v", events, err)
		}
	}
	if err := ended.Close(); err != nil {
		t.Fatal(err)
	}
	f.expect(all, f.create("b"))
	if len(other.woken)+len(ended.woken) > 0 {
		t.Error("woken by a change of another namespace, or after Close")
	}
	stop() // closes the caches
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	<-other.woken
	if events, err := rest.Poll(f.ctx, other.Watch, other.wake); !errors.Is(err, rest.ErrWouldBlock) {
		t.Errorf("polled %v, %v without a cache", events, err)
	}
	elsewhere, err := f.cacher.Create(f.ctx, storagetest.Pod("ns2", "c"), storage.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(other, elsewhere)
}
