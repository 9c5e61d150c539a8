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

// source is an etcd watch with its own gRPC stream, because etcd reports progress only when all watches
// of a stream are up to date.
type source struct {
	watcher           clientv3.Watcher
	ctx               context.Context
	cancel            context.CancelFunc
	messages          chan watchMessage
	progressRequested chan struct{} // contains a pending request for progress
	tasks             sync.WaitGroup
}

// watchMessage is one message of an etcd watch: the events of complete commits, or only progress.
type watchMessage struct {
	events   []kv.Event
	revision kv.Revision
	err      error // only set in the last message
}

// open starts an etcd watch from w.next. etcd's client reconnects lost watches, to another member
// if necessary.
func (w *watch) open() (*source, error) {
	if compacted := w.s.compacted.Load(); int64(w.next) < compacted {
		return nil, fmt.Errorf("revision %d was requested, the oldest is %d: %w", w.next, compacted, kv.ErrCompacted)
	}
	src := &source{
		watcher:  clientv3.NewWatcher(w.s.client),
		messages: make(chan watchMessage), progressRequested: make(chan struct{}, 1),
	}
	src.ctx, src.cancel = context.WithCancel(w.ctx)
	first, last := bounds(w.start, w.end)
	opts := []clientv3.OpOption{
		clientv3.WithRev(int64(w.next)), clientv3.WithRange(string(last)),
		clientv3.WithPrevKV(), clientv3.WithFragment(), clientv3.WithProgressNotify(),
	}
	if isEmptyRange(w.start, w.end) {
		// etcd rejects an empty range. This watch only delivers progress.
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
		_ = src.watcher.Close() // the watch was not opened
		return nil, err
	}
	src.tasks.Go(func() { src.read(w.s, responses) })
	src.tasks.Go(src.sendRequests)
	return src, nil
}

// close ends the etcd watch. Undelivered messages are dropped.
func (src *source) close() {
	src.cancel()
	_ = src.watcher.Close() // the error reports that the stream was canceled
	src.tasks.Wait()
}

// requestProgress requests progress from etcd, unless a request is pending. It does not block, unlike the
// method of etcd's client, which blocks if there is no connection.
func (src *source) requestProgress() {
	select {
	case src.progressRequested <- struct{}{}:
	default:
	}
}

func (src *source) sendRequests() {
	for {
		select {
		case <-src.progressRequested:
			_ = src.watcher.RequestProgress(src.ctx) // progress will be requested again
		case <-src.ctx.Done():
			return
		}
	}
}

// read forwards etcd's messages. It always receives, because otherwise etcd's client buffers messages without
// limit.
func (src *source) read(s *Store, responses clientv3.WatchChan) {
	defer close(src.messages)
	for resp := range responses {
		a := watchMessage{err: s.watchError(&resp)}
		if a.err == nil {
			a.revision = kv.Revision(resp.Header.GetRevision())
			a.events, a.err = s.events(resp.Events)
			if n := len(a.events); n > 0 {
				// The header's revision may be newer than the events from history.
				a.revision = a.events[n-1].Revision
			} else if a.err == nil && !resp.IsProgressNotify() {
				continue
			}
		}
		select {
		case src.messages <- a:
		case <-src.ctx.Done():
			return
		}
	}
}

// watchError returns the error with which etcd ended a watch, or nil.
func (s *Store) watchError(resp *clientv3.WatchResponse) error {
	if resp.CompactRevision > 0 {
		s.observeCompacted(kv.Revision(resp.CompactRevision))
		return fmt.Errorf("the oldest revision is %d: %w", resp.CompactRevision, kv.ErrCompacted)
	}
	err := resp.Err()
	switch {
	case err == nil:
		return nil
	case isEtcdError(err, rpctypes.ErrCompacted):
		return kv.ErrCompacted
	case transient(err):
		return fmt.Errorf("%w: %s", kv.ErrUnavailable, status.Convert(err).Message())
	}
	return errors.New(status.Convert(err).Message())
}

// events converts etcd's events. It returns kv.ErrCompacted if the previous entry of a change was compacted
// before etcd could read it, because an event without the previous entry would be incomplete.
func (s *Store) events(from []*clientv3.Event) ([]kv.Event, error) {
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
		to.Origin = s.origins.of(to)
	}
	return list, nil
}
