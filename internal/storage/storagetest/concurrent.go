package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

func concurrentTests() []test {
	return []test{
		{"UpdatesLoseNothing", testUpdatesLoseNothing},
		{"ReadOthersWrites", testReadOthersWrites},
		{"WatchesSeeTheSame", testWatchesSeeTheSame},
		{"Readers", testReaders},
	}
}

// together calls run concurrently with 0 to n-1 and waits for the calls.
func together(n int, run func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { run(i) })
	}
	group.Wait()
}

func testUpdatesLoseNothing(e *env) {
	const writers, each = 8, 25
	e.create(Pod("ns", "a", "n=0"))
	together(writers, func(int) {
		var hint *codec.Record
		for range each {
			record, err := e.Update(e.ctx, key("ns", "a"), updatePod(func(pod *corev1.Pod) {
				n, _ := strconv.Atoi(pod.Labels["n"])
				pod.Labels["n"] = strconv.Itoa(n + 1)
			}), storage.UpdateOptions{Cached: hint})
			if err != nil {
				e.Errorf("update: %v", err)
				return
			}
			hint = record
		}
	})
	got, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{})
	if err != nil || e.pod(got).Labels["n"] != strconv.Itoa(writers*each) {
		e.Errorf("counter is %v, %v, want %d", e.pod(got).Labels["n"], err, writers*each)
	}
}

// testReadOthersWrites checks that acknowledged writes are visible to all reads that start
// afterwards.
func testReadOthersWrites(e *env) {
	const writers, each = 4, 25
	acknowledged := make(chan *codec.Record)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for written := range acknowledged {
				if !e.visible(written) {
					return
				}
			}
		})
	}
	together(writers, func(i int) {
		for j := range each {
			record, err := e.Create(e.ctx, Pod("ns", fmt.Sprintf("p%d-%d", i, j)), storage.WriteOptions{})
			if err != nil {
				e.Errorf("create: %v", err)
				return
			}
			acknowledged <- record
		}
	})
	close(acknowledged)
	readers.Wait()
}

// visible reports whether lists and gets return an acknowledged record.
func (e *env) visible(written *codec.Record) bool {
	list, err := e.List(e.ctx, "ns", rest.ListOptions{})
	if err != nil {
		e.Errorf("list: %v", err)
		return false
	}
	found := false
	for record, err := range list.Items {
		if err != nil {
			e.Errorf("list: %v", err)
			return false
		}
		found = found || record.Name() == written.Name()
	}
	if !found || list.Revision < written.Revision() {
		e.Errorf("a list at %d does not show %s of revision %d", list.Revision, written.Name(), written.Revision())
	}
	if _, err := e.Get(e.ctx, written.Name(), storage.ReadOptions{}); err != nil {
		e.Errorf("get of an acknowledged object: %v", err)
		return false
	}
	return true
}

// testWatchesSeeTheSame checks that watches started at any time return all later events, each once and in
// order.
func testWatchesSeeTheSame(e *env) {
	options := fromNow(e)
	const writers, each = 4, 30
	full := e.watch("ns", options)
	var late sync.WaitGroup
	together(writers, func(i int) {
		name := fmt.Sprintf("p%d", i)
		for j := range each {
			if j == 0 {
				e.create(Pod("ns", name, "x=0"))
				continue
			}
			record := e.change(key("ns", name), label("x", fmt.Sprint(j)))
			if j%10 == 5 {
				late.Go(func() { e.checkWatchFrom("ns", record) })
			}
		}
	})
	late.Wait()
	last := map[string]int{}
	revision := int64(0)
	for range writers * each {
		for _, ev := range e.next(full) {
			if ev.Record.Revision() <= revision {
				e.Fatalf("revision %d after %d", ev.Record.Revision(), revision)
			}
			revision = ev.Record.Revision()
			name := ev.Record.Name().Name
			if x := e.pod(ev.Record).Labels["x"]; x != fmt.Sprint(last[name]) {
				e.Fatalf("%s: change %s, want %d", name, x, last[name])
			}
			last[name]++
		}
		if total(last) == writers*each {
			return
		}
	}
}

func total(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

func (e *env) next(w rest.Watch) []rest.Event {
	e.Helper()
	events, err := w.Next(e.ctx)
	if err != nil {
		e.Fatalf("watch: %v", err)
	}
	return events
}

// checkWatchFrom checks that a watch from the revision before a record begins with the record.
func (e *env) checkWatchFrom(namespace string, record *codec.Record) {
	w, err := e.Watch(e.ctx, namespace, rest.ListOptions{ResourceVersion: rv(record.Revision() - 1)})
	if err != nil {
		e.Errorf("watch: %v", err)
		return
	}
	defer w.Close()
	events, err := w.Next(e.ctx)
	if err != nil {
		e.Errorf("watch: %v", err)
		return
	}
	if events[0].Record.Revision() != record.Revision() {
		e.Errorf("a watch from %d begins at %d", record.Revision()-1, events[0].Record.Revision())
	}
}

// testReaders runs all operations concurrently, for the race detector.
func testReaders(e *env) {
	ctx, cancel := context.WithTimeout(e.ctx, 2*time.Second)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() {
		defer cancel()
		for i := range 60 {
			e.create(Pod("ns", "a", "x=1"))
			e.change(key("ns", "a"), label("x", fmt.Sprint(i)))
			e.remove(key("ns", "a"))
		}
	})
	for i := range 4 {
		group.Go(func() { e.readUntil(ctx, i) })
	}
	group.Wait()
}

func (e *env) readUntil(ctx context.Context, i int) {
	for ctx.Err() == nil {
		var err error
		switch i {
		case 0:
			_, err = e.Get(ctx, key("ns", "a"), storage.ReadOptions{})
			if errors.Is(err, storage.ErrNotFound) {
				err = nil
			}
		case 1, 2:
			var list *rest.List
			if list, err = e.List(ctx, "", rest.ListOptions{Labels: selector(e, "x!=2")}); err == nil {
				e.encode(list)
			}
		default:
			var w rest.Watch
			if w, err = e.Watch(ctx, "ns", rest.ListOptions{}); err == nil {
				for range 5 {
					if _, err = w.Next(ctx); err != nil {
						break
					}
				}
				w.Close()
			}
		}
		if err != nil && ctx.Err() == nil {
			e.Errorf("reader %d: %v", i, err)
			return
		}
	}
}

func (e *env) encode(list *rest.List) {
	for record, err := range list.Items {
		if err == nil {
			_, err = record.JSONTail(record.Kind().Hub)
		}
		if err != nil && e.ctx.Err() == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			e.Errorf("item: %v", err)
		}
	}
}
