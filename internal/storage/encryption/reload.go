package encryption

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// reloadPeriod is how often the file is looked at; kube-apiserver does once a minute.
	reloadPeriod = 2 * time.Second
	// maxRetry is how long after a file could not be used it is tried again, at most.
	maxRetry = time.Minute
	// minTrial is how long the plugins of a new configuration have to answer, at least.
	minTrial = 10 * time.Second
)

// Run checks the plugins and, if configured, reloads the file, until ctx ends.
func (t *Transformers) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	end := t.start(ctx, &running, t.current.Load())
	if !t.options.Reload {
		<-ctx.Done()
		return
	}
	for wait := reloadPeriod; pause(ctx, wait); {
		next, err := t.changed(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.options.Metrics.reloaded(err)
			t.options.Logger.Error("the changed encryption configuration is invalid: the previous one remains in effect", "err", err)
			wait = min(2*wait, maxRetry)
			continue
		case next == nil:
			wait = reloadPeriod
			continue
		}
		wait = reloadPeriod
		endNext := t.start(ctx, &running, next)
		before, endBefore := t.current.Swap(next), end
		end = endNext
		running.Go(func() { // requests in flight still use the previous plugins
			pause(ctx, 2*before.patience)
			endBefore()
		})
		t.options.Metrics.reloaded(nil)
		t.options.Metrics.loaded(next.hash)
		t.options.Logger.Info("the encryption configuration has changed and was read again", "hash", next.hash)
	}
}

// pause waits; it is false where ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// start runs the plugins of a configuration until end is called or ctx ends.
func (t *Transformers) start(ctx context.Context, running *sync.WaitGroup, l *loaded) (end func()) {
	ctx, end = context.WithCancel(ctx)
	for _, plugin := range l.plugins {
		running.Go(func() { _ = plugin.Run(ctx) }) // always nil
	}
	return end
}

// changed returns the new configuration when its plugins are healthy, or nil if the file has not
// changed.
func (t *Transformers) changed(ctx context.Context) (*loaded, error) {
	data, hash, err := t.read()
	if err != nil {
		return nil, err
	}
	if hash == t.current.Load().hash {
		return nil, nil
	}
	next, err := t.load(data, hash)
	if err != nil {
		return nil, err
	}
	if err := next.await(ctx); err != nil {
		for _, plugin := range next.plugins {
			plugin.Close()
		}
		return nil, err
	}
	return next, nil
}

// await waits until all plugins are healthy.
func (l *loaded) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(2*l.patience, minTrial))
	defer cancel()
	for {
		err := l.check(ctx)
		if err == nil {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("health check for new transformers failed: %w", err)
		}
	}
}
