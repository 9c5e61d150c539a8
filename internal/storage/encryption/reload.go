package encryption

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// reloadPeriod is the interval between two checks of the file. kube-apiserver uses one minute.
	reloadPeriod = 2 * time.Second
	// maxRetryDelay is the maximum delay before an invalid file is loaded again.
	maxRetryDelay = time.Minute
	// minCheckTimeout is the minimum timeout for the health check of a new configuration's plugins.
	minCheckTimeout = 10 * time.Second
)

// Run checks the plugins periodically and, with Options.Reload, loads the file after changes, until
// ctx ends. An invalid file is logged, and the previous configuration stays in use. Run must be called only
// once.
func (t *Transformers) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	end := t.start(ctx, &running, t.current.Load())
	if !t.options.Reload {
		<-ctx.Done()
		return
	}
	for wait := reloadPeriod; sleep(ctx, wait); {
		next, err := t.changed(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.options.Metrics.reloaded(err)
			t.options.Logger.Error("the changed encryption configuration is invalid: the previous one remains in effect", "err", err)
			wait = min(2*wait, maxRetryDelay)
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
			sleep(ctx, 2*before.callTimeout)
			endBefore()
		})
		t.options.Metrics.reloaded(nil)
		t.options.Metrics.loaded(next.hash)
		t.options.Logger.Info("the encryption configuration has changed and was read again", "hash", next.hash)
	}
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
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
func (t *Transformers) start(ctx context.Context, running *sync.WaitGroup, l *loadedConfig) (end func()) {
	ctx, end = context.WithCancel(ctx)
	for _, plugin := range l.plugins {
		running.Go(func() { _ = plugin.Run(ctx) }) // always nil
	}
	return end
}

// changed returns the new configuration when its plugins are healthy, or nil if the file has not
// changed.
func (t *Transformers) changed(ctx context.Context) (*loadedConfig, error) {
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

// await waits until all plugins are healthy, and returns an error after a timeout or if ctx ends.
func (l *loadedConfig) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(2*l.callTimeout, minCheckTimeout))
	defer cancel()
	for {
		err := l.check(ctx)
		if err == nil {
			return nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("health check for new transformers failed: %w", err)
		}
	}
}
