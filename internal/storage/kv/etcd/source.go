package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// source is a watch of etcd. It has a stream of its own: etcd reports progress
// only when all watches of a stream have caught up.
type source struct {
	watcher clientv3.Watcher
	ctx     context.Context
	cancel  context.CancelFunc
	answers chan answer
	ask     chan struct{} // holds a request for progress
	tasks   sync.WaitGroup
}

// answer is what etcd sends at a time: whole commits, or progress alone.
type answer struct {
	events   []kv.Event
	revision kv.Revision
	err      error // the last answer
}

// open begins a watch of etcd from w.next on. etcd's client keeps it up over
// lost connections; it takes up where it stopped, on another member if need be.
func (w *watch) open() (*source, error) {
	if compacted := w.s.compacted.Load(); int64(w.next) < compacted {
		return nil, fmt.Errorf("revision %d was requested, the oldest is %d: %w", w.next, compacted, kv.ErrCompacted)
	}
	src := &source{
		watcher: clientv3.NewWatcher(w.s.client),
		answers: make(chan answer), ask: make(chan struct{}, 1),
	}
	src.ctx, src.cancel = context.WithCancel(w.ctx)
	first, last := bounds(w.start, w.end)
	opts := []clientv3.OpOption{
		clientv3.WithRev(int64(w.next)), clientv3.WithRange(string(last)),
		clientv3.WithPrevKV(), clientv3.WithFragment(), clientv3.WithProgressNotify(),
	}
	if empty(w.start, w.end) {
		// etcd refuses an empty range. Nothing comes of this one, but progress.
		opts = append(opts, clientv3.WithRange(string(first)+"\x00"), clientv3.WithFilterPut(), clientv3.WithFilterDelete())
	}
	began := time.Now()
	tooLong := time.AfterFunc(w.s.config.RequestTimeout, src.cancel)
	responses := src.watcher.Watch(src.ctx, string(first), opts...)
	inTime := tooLong.Stop()
	var err error
	switch {
	case w.s.ctx.Err() != nil:
		err = kv.ErrClosed
	case w.ctx.Err() != nil:
		err = w.ctx.Err()
	case !inTime:
		err = fmt.Errorf("%w: etcd has not opened a watch within %s", kv.ErrUnavailable, w.s.config.RequestTimeout)
	}
	w.s.metrics.observe("watch", began, err)
	if err != nil {
		src.cancel()
		_ = src.watcher.Close() // it was not opened
		return nil, err
	}
	src.tasks.Go(func() { src.read(w.s, responses) })
	src.tasks.Go(src.askProgress)
	return src, nil
}

// close ends the watch of etcd; answers that were not taken are dropped.
func (src *source) close() {
	src.cancel()
	_ = src.watcher.Close() // the stream is cancelled, which is what it says
	src.tasks.Wait()
}

// requestProgress asks etcd for progress, unless that is being done. It does not
// block, as etcd's client does while it is not connected.
func (src *source) requestProgress() {
	select {
	case src.ask <- struct{}{}:
	default:
	}
}

func (src *source) askProgress() {
	for {
		select {
		case <-src.ask:
			_ = src.watcher.RequestProgress(src.ctx) // it is asked for again
		case <-src.ctx.Done():
			return
		}
	}
}

// read passes on what etcd sends. It is always ready to receive: etcd's client
// buffers without bound for who is not.
func (src *source) read(s *Store, responses clientv3.WatchChan) {
	defer close(src.answers)
	for resp := range responses {
		a := answer{err: s.watchError(&resp)}
		if a.err == nil {
			a.revision = kv.Revision(resp.Header.GetRevision())
			a.events, a.err = events(resp.Events)
			if n := len(a.events); n > 0 {
				// The header may be ahead of what is sent from history.
				a.revision = a.events[n-1].Revision
			} else if !resp.IsProgressNotify() {
				continue
			}
		}
		select {
		case src.answers <- a:
		case <-src.ctx.Done():
			return
		}
	}
}

// watchError says why etcd ended a watch, if it did.
func (s *Store) watchError(resp *clientv3.WatchResponse) error {
	if resp.CompactRevision > 0 {
		s.observeCompacted(kv.Revision(resp.CompactRevision))
		return fmt.Errorf("the oldest revision is %d: %w", resp.CompactRevision, kv.ErrCompacted)
	}
	err := resp.Err()
	switch {
	case err == nil:
		return nil
	case is(err, rpctypes.ErrCompacted):
		return kv.ErrCompacted
	case transient(err):
		return fmt.Errorf("%w: %s", kv.ErrUnavailable, status.Convert(err).Message())
	}
	return errors.New(status.Convert(err).Message())
}

// events puts etcd's events in kv's terms. The entry before a change is missing
// where it was compacted before it could be read; without it a watch is not
// complete.
func events(from []*clientv3.Event) ([]kv.Event, error) {
	if len(from) == 0 {
		return nil, nil
	}
	list := make([]kv.Event, len(from))
	for i, ev := range from {
		to := &list[i]
		to.Key, to.Revision = string(ev.Kv.Key), kv.Revision(ev.Kv.ModRevision)
		if to.Deleted = ev.Type == clientv3.EventTypeDelete; !to.Deleted {
			to.Value, to.Created = ev.Kv.Value, kv.Revision(ev.Kv.CreateRevision)
		}
		if ev.PrevKv != nil {
			prev := entry(ev.PrevKv)
			to.Prev = &prev
		} else if to.Created != to.Revision {
			return nil, fmt.Errorf("the version of %q before revision %d is compacted: %w", to.Key, to.Revision, kv.ErrCompacted)
		}
	}
	return list, nil
}
