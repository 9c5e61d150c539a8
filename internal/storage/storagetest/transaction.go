package storagetest

import (
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

func transactionTests() []test {
	return []test{
		{"Together", testTogether},
		{"ConflictWritesNothing", testConflictWritesNothing},
		{"Unchanged", testUnchanged},
		{"Recheck", testRecheck},
		{"UpdateTogether", testUpdateTogether},
		{"RemoveTogether", testRemoveTogether},
		{"TransactionsObserved", testTransactionsObserved},
		{"Counter", testCounter},
		{"GetExactly", testGetExactly},
	}
}

// tickets returns a second storage over the same backend.
func (e *env) tickets() storage.Interface {
	return e.open(storage.Config{ResourcePrefix: "tickets", Kind: PodKind(), Namespaced: true})
}

// prepare prepares one write of a transaction.
func (e *env) prepare(s storage.Interface, current *codec.Record, obj codec.Object) *storage.Op {
	e.Helper()
	op, err := s.Prepare(e.ctx, storage.OpRequest{Current: current, Object: obj})
	if err != nil {
		e.Fatal(err)
	}
	return op
}

// testTogether checks that two objects of different resources are created at the same revision, and that
// a watch of one resource returns only its own object.
func testTogether(e *env) {
	tickets := e.tickets()
	watch, err := tickets.Watch(e.ctx, "", rest.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { watch.Close() })
	op := e.prepare(tickets, nil, Pod("ns", "ticket"))
	record, err := e.Create(e.ctx, Pod("ns", "holder"), storage.WriteOptions{With: []*storage.Op{op}})
	if err != nil {
		e.Fatal(err)
	}
	ticket, err := tickets.Get(e.ctx, key("ns", "ticket"), storage.ReadOptions{})
	if err != nil || ticket.Revision() != record.Revision() {
		e.Fatalf("ticket: %v at %v, holder at %d", err, ticket, record.Revision())
	}
	events, err := watch.Next(e.ctx)
	for err == nil && len(events) == 0 {
		events, err = watch.Next(e.ctx)
	}
	if err != nil || len(events) != 1 || events[0].Record.Name().Name != "ticket" {
		e.Errorf("watch of tickets: %v %v", events, err)
	}
	if _, err := e.Prepare(e.ctx, storage.OpRequest{}); err == nil {
		e.Error("an empty request was prepared")
	}
}

// testConflictWritesNothing checks that a conflict of one object prevents both writes, and that the error
// contains the name of this object.
func testConflictWritesNothing(e *env) {
	tickets := e.tickets()
	if _, err := tickets.Create(e.ctx, Pod("ns", "ticket"), storage.WriteOptions{}); err != nil {
		e.Fatal(err)
	}
	op := e.prepare(tickets, nil, Pod("ns", "ticket"))
	_, err := e.Create(e.ctx, Pod("ns", "holder"), storage.WriteOptions{With: []*storage.Op{op}})
	var conflict *storage.OpConflictError
	if !errors.As(err, &conflict) || conflict.Name != key("ns", "ticket") {
		e.Errorf("create: %v", err)
	}
	if _, err := e.Get(e.ctx, key("ns", "holder"), storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
		e.Errorf("get of the holder: %v", err)
	}
	// A conflict of the created object is reported like a conflict without other writes.
	e.create(Pod("ns", "other"))
	op = e.prepare(tickets, nil, Pod("ns", "free"))
	if _, err := e.Create(e.ctx, Pod("ns", "other"), storage.WriteOptions{With: []*storage.Op{op}}); !errors.Is(err, storage.ErrExists) {
		e.Errorf("create of an existing object: %v", err)
	}
	if _, err := tickets.Get(e.ctx, key("ns", "free"), storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
		e.Errorf("get of the unwritten ticket: %v", err)
	}
}

// testUnchanged checks a write that requires another object to be unchanged, but does not write that object.
func testUnchanged(e *env) {
	tickets := e.tickets()
	ticket, err := tickets.Create(e.ctx, Pod("ns", "ticket"), storage.WriteOptions{})
	if err != nil {
		e.Fatal(err)
	}
	create := func(name string) error {
		op, err := tickets.Prepare(e.ctx, storage.OpRequest{Unchanged: &storage.Version{Name: key("ns", "ticket"), Revision: ticket.Revision()}})
		if err != nil {
			e.Fatal(err)
		}
		_, err = e.Create(e.ctx, Pod("ns", name), storage.WriteOptions{With: []*storage.Op{op}})
		return err
	}
	if err := create("a"); err != nil {
		e.Error(err)
	}
	if err := create("a"); !errors.Is(err, storage.ErrExists) {
		e.Errorf("create of an existing object: %v", err)
	}
	if now, err := tickets.Get(e.ctx, key("ns", "ticket"), storage.ReadOptions{}); err != nil || now.Revision() != ticket.Revision() {
		e.Errorf("the ticket was modified (%v)", err)
	}
	if _, err := tickets.Update(e.ctx, key("ns", "ticket"), updatePod(label("by", "another")), storage.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
	if err := create("b"); !errors.As(err, new(*storage.OpConflictError)) {
		e.Errorf("create with a modified ticket: %v", err)
	}
	if _, err := tickets.Delete(e.ctx, key("ns", "ticket"), nil, storage.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
	if err := create("c"); !errors.As(err, new(*storage.OpConflictError)) {
		e.Errorf("create with a deleted ticket: %v", err)
	}
}

// testRecheck checks that a write with a failed condition is repeated if the recheck of the condition permits it.
func testRecheck(e *env) {
	tickets := e.tickets()
	ticket, err := tickets.Create(e.ctx, Pod("ns", "ticket"), storage.WriteOptions{})
	if err != nil {
		e.Fatal(err)
	}
	errExpired, rechecked := errors.New("the ticket has expired"), 0
	options := func() storage.WriteOptions {
		op, err := tickets.Prepare(e.ctx, storage.OpRequest{
			Unchanged: &storage.Version{Name: key("ns", "ticket"), Revision: ticket.Revision()},
			Recheck: func(current *codec.Record) error {
				rechecked++
				if current == nil {
					return errExpired
				}
				obj, err := current.Shared()
				if err == nil && obj.GetLabels()["expired"] != "" {
					err = errExpired
				}
				return err
			},
		})
		if err != nil {
			e.Fatal(err)
		}
		return storage.WriteOptions{With: []*storage.Op{op, e.prepare(tickets, nil, Pod("ns", fmt.Sprint("other", rechecked)))}}
	}
	create := func(name string, rechecks int, want error) {
		e.Helper()
		rechecked = 0
		_, err := e.Create(e.ctx, Pod("ns", name), options())
		if !errors.Is(err, want) || rechecked != rechecks {
			e.Errorf("create %s: error %v after %d rechecks, want %v after %d", name, err, rechecked, want, rechecks)
		}
		if err == nil {
			_, err = tickets.Delete(e.ctx, key("ns", "other0"), nil, storage.UpdateOptions{})
		}
		if err != nil && want == nil {
			e.Error(err)
		}
	}
	create("a", 0, nil)
	create("a", 0, storage.ErrExists)
	for _, change := range []string{"color", "expired"} {
		if _, err := tickets.Update(e.ctx, key("ns", "ticket"), updatePod(label(change, "yes")), storage.UpdateOptions{}); err != nil {
			e.Fatal(err)
		}
		if change == "color" {
			create("b", 1, nil)
			create("b", 1, storage.ErrExists)
		}
	}
	create("c", 1, errExpired)
	_, err = e.Update(e.ctx, key("ns", "c"), func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		return Pod("ns", "c"), options(), nil
	}, storage.UpdateOptions{})
	if !errors.Is(err, errExpired) {
		e.Errorf("creation by an update with an expired ticket: %v", err)
	}
	if _, err := tickets.Delete(e.ctx, key("ns", "ticket"), nil, storage.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
	create("c", 1, errExpired)
}

// testUpdateTogether checks that an update that starts with an outdated record calls its UpdateFunc again,
// which prepares new Ops.
func testUpdateTogether(e *env) {
	tickets := e.tickets()
	stale := e.create(Pod("ns", "holder"))
	if _, err := e.Update(e.ctx, key("ns", "holder"), updatePod(label("by", "another")), storage.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
	calls := 0
	record, err := e.Update(e.ctx, key("ns", "holder"), func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		calls++
		obj, _, err := updatePod(label("ticket", "yes"))(current)
		return obj, storage.WriteOptions{With: []*storage.Op{e.prepare(tickets, nil, Pod("ns", "ticket"))}}, err
	}, storage.UpdateOptions{Cached: stale})
	if err != nil {
		e.Fatal(err)
	}
	ticket, err := tickets.Get(e.ctx, key("ns", "ticket"), storage.ReadOptions{})
	if err != nil || ticket.Revision() != record.Revision() {
		e.Errorf("get after %d calls: %v", calls, err)
	}
	// Only one of two writes from the same revision of the ticket succeeds.
	op := e.prepare(tickets, ticket, Pod("ns", "ticket", "holder=b"))
	if _, err := e.Create(e.ctx, Pod("ns", "b"), storage.WriteOptions{With: []*storage.Op{op}}); err != nil {
		e.Error(err)
	}
	op = e.prepare(tickets, ticket, Pod("ns", "ticket", "holder=c"))
	if _, err := e.Create(e.ctx, Pod("ns", "c"), storage.WriteOptions{With: []*storage.Op{op}}); !errors.As(err, new(*storage.OpConflictError)) {
		e.Errorf("create with an outdated ticket: %v", err)
	}
}

// testRemoveTogether checks that an object and its ticket are deleted in one transaction.
func testRemoveTogether(e *env) {
	tickets := e.tickets()
	op := e.prepare(tickets, nil, Pod("ns", "ticket"))
	if _, err := e.Create(e.ctx, Pod("ns", "holder"), storage.WriteOptions{With: []*storage.Op{op}}); err != nil {
		e.Fatal(err)
	}
	ticket, err := tickets.Get(e.ctx, key("ns", "ticket"), storage.ReadOptions{})
	if err != nil {
		e.Fatal(err)
	}
	remove := func(options storage.WriteOptions) error {
		_, err := e.Update(e.ctx, key("ns", "holder"), func(*codec.Record) (codec.Object, storage.WriteOptions, error) {
			options.With = []*storage.Op{e.prepare(tickets, ticket, nil)}
			return nil, options, storage.Remove{}
		}, storage.UpdateOptions{})
		return err
	}
	if err := remove(storage.WriteOptions{DryRun: true}); err != nil {
		e.Error(err)
	}
	if _, err := tickets.Get(e.ctx, key("ns", "ticket"), storage.ReadOptions{}); err != nil {
		e.Errorf("after a dry run: %v", err)
	}
	if err := remove(storage.WriteOptions{}); err != nil {
		e.Error(err)
	}
	for name, s := range map[string]storage.Interface{"holder": e, "ticket": tickets} {
		if _, err := s.Get(e.ctx, key("ns", name), storage.ReadOptions{}); !errors.Is(err, storage.ErrNotFound) {
			e.Errorf("%s: %v", name, err)
		}
	}
}

// testTransactionsObserved checks that an observer is called for a write that is committed together with
// the write of another object.
func testTransactionsObserved(e *env) {
	var written []*codec.Record
	tickets := storage.WithObserver(e.tickets(), &storage.Observer{Written: func(r *codec.Record) error {
		written = append(written, r)
		return nil
	}})
	op := e.prepare(tickets, nil, Pod("ns", "ticket"))
	if len(written) != 0 {
		e.Error("a write was reported before it was committed")
	}
	record, err := e.Create(e.ctx, Pod("ns", "holder"), storage.WriteOptions{With: []*storage.Op{op}})
	if err != nil {
		e.Fatal(err)
	}
	if len(written) != 1 || written[0].Revision() != record.Revision() {
		e.Errorf("reported writes: %v", written)
	}
}

// testCounter checks that concurrent writers can count their objects in another object by
// compare-and-swap.
func testCounter(e *env) {
	const writers, each = 8, 5
	tickets := e.tickets()
	if _, err := tickets.Create(e.ctx, Pod("ns", "count"), storage.WriteOptions{}); err != nil {
		e.Fatal(err)
	}
	add := func(name string) error {
		for {
			current, err := tickets.Get(e.ctx, key("ns", "count"), storage.ReadOptions{})
			if err != nil {
				return err
			}
			count, err := current.Object()
			if err != nil {
				return err
			}
			count.(*corev1.Pod).Generation++
			op, err := tickets.Prepare(e.ctx, storage.OpRequest{Current: current, Object: count})
			if err != nil {
				return err
			}
			_, err = e.Create(e.ctx, Pod("ns", name), storage.WriteOptions{With: []*storage.Op{op}})
			if !errors.As(err, new(*storage.OpConflictError)) {
				return err
			}
		}
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := add(string(rune('a'+w)) + rv(int64(i))); err != nil {
					e.Error(err)
				}
			}
		})
	}
	all.Wait()
	count, err := tickets.Get(e.ctx, key("ns", "count"), storage.ReadOptions{})
	if err != nil {
		e.Fatal(err)
	}
	n, err := e.Count(e.ctx)
	if counted := e.pod(count).Generation; err != nil || n != writers*each || counted != n {
		e.Errorf("%d objects, counted %d: %v", n, counted, err)
	}
}

// testGetExactly checks ReadOptions.Exact.
func testGetExactly(e *env) {
	first := e.create(Pod("ns", "a", "x=1"))
	second, err := e.Update(e.ctx, key("ns", "a"), updatePod(label("x", "2")), storage.UpdateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for revision, want := range map[int64]string{first.Revision(): "1", second.Revision(): "2"} {
		got, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{ResourceVersion: rv(revision), Exact: true})
		if err != nil || e.pod(got).Labels["x"] != want {
			e.Errorf("at %d: %v, %v", revision, got, err)
		}
	}
	if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{Exact: true}); !errors.As(err, new(*storage.InvalidOptionError)) {
		e.Errorf("get without a revision: %v", err)
	}
	if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{ResourceVersion: rv(second.Revision() + 1000), Exact: true}); !errors.As(err, new(*storage.FutureRevisionError)) {
		e.Errorf("get in the future: %v", err)
	}
	third := e.create(Pod("ns", "b"))
	if err := e.backend.Compact(e.ctx, kv.Revision(third.Revision())); err != nil {
		e.Fatal(err)
	}
	if _, err := e.Get(e.ctx, key("ns", "a"), storage.ReadOptions{ResourceVersion: rv(first.Revision()), Exact: true}); !errors.Is(err, storage.ErrExpired) {
		e.Errorf("get at a compacted revision: %v", err)
	}
}
