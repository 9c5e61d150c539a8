package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// writer writes objects that no other client writes, one request at a time, and records their expected
// contents. Only one goroutine may use a writer; other goroutines may read its fields while no request is in
// flight.
type writer struct {
	id   int
	rng  *rand.Rand
	send func(func() (outcome, error)) (outcome, error)
	c    *client
	// objects is the number of objects that the writer uses.
	objects int
	// acknowledged maps the names of the writer's objects to their state after the last acknowledged write.
	acknowledged map[string]object
	// pending is the request whose outcome is unknown, or nil.
	pending *attempt
	// puts and deletions contain the acknowledged writes.
	puts, deletions []object
	// doubtful contains the requests whose outcome was unknown at first.
	doubtful []attempt
	count    int
	last     int64 // greatest revision in a response
}

// attempt is a write with the states of the object before and after it. An object with an empty name does not
// exist.
type attempt struct{ before, after object }

// write sends one request. The outcome is unknown if the server stopped.
func (w *writer) write(ctx context.Context) (outcome, error) {
	w.count++
	o := object{
		name:  fmt.Sprintf("w%02d-%d", w.id, w.rng.IntN(w.objects)),
		value: fmt.Sprintf("%d-%d", w.id, w.count),
		group: string(rune('a' + w.rng.IntN(3))),
	}
	before, there := w.acknowledged[o.name]
	var got object
	try := attempt{before, o}
	request := func() (out outcome, err error) {
		got, out, err = w.c.create(ctx, o)
		return out, err
	}
	switch {
	case there && w.rng.IntN(4) == 0:
		try.after = object{}
		request = func() (out outcome, err error) {
			got, out, err = w.c.remove(ctx, o.name, 0)
			return out, err
		}
	case there:
		if w.rng.IntN(2) == 0 {
			o.revision = before.revision
		}
		request = func() (out outcome, err error) {
			got, out, err = w.c.update(ctx, o)
			return out, err
		}
	}
	out, err := w.send(func() (outcome, error) {
		out, err := request()
		return out, errors.Join(err, w.note(out, try, got))
	})
	switch {
	case err != nil:
		return out, fmt.Errorf("write %s: %w", o.name, err)
	case out != done && out != unknown:
		return out, fmt.Errorf("write %s, which only one client does: %s", o.name, out)
	}
	return out, nil
}

// note records the outcome of a request. It must be called before the request counts as completed, because
// verify may run immediately afterwards.
func (w *writer) note(out outcome, try attempt, got object) error {
	switch out {
	case done:
		return w.acknowledge(try, got)
	case unknown:
		w.pending = &try
		w.doubtful = append(w.doubtful, try)
	}
	return nil
}

func (w *writer) acknowledge(try attempt, got object) error {
	if got.revision <= w.last {
		return fmt.Errorf("a write of %s has revision %d, after %d", got.name, got.revision, w.last)
	}
	w.last = got.revision
	if try.after.name == "" {
		if got.value != try.before.value {
			return fmt.Errorf("deletion of %s returned value %q, not %q", got.name, got.value, try.before.value)
		}
		delete(w.acknowledged, got.name)
		w.deletions = append(w.deletions, got)
		return nil
	}
	if got.value != try.after.value || got.group != try.after.group {
		return fmt.Errorf("wrote %v, was answered %v", try.after, got)
	}
	w.acknowledged[got.name] = got
	w.puts = append(w.puts, got)
	return nil
}

// verify compares the stored objects at a revision with the expected objects, and determines the outcome of the
// pending request. It removes the writer's objects from the map there.
func (w *writer) verify(there map[string]object, revision int64) error {
	if revision < w.last {
		return fmt.Errorf("the store is at revision %d, a write was acknowledged at %d", revision, w.last)
	}
	for i := range w.objects {
		name := fmt.Sprintf("w%02d-%d", w.id, i)
		got, present := there[name]
		delete(there, name)
		want, acknowledged := w.acknowledged[name]
		if present == acknowledged && got == want {
			continue
		}
		if p := w.pending; p != nil && p.made(name, got, present) {
			if present {
				w.acknowledged[name] = got
			} else {
				delete(w.acknowledged, name)
			}
			continue
		}
		return fmt.Errorf("%s: acknowledged %v (%t), there is %v (%t)", name, want, acknowledged, got, present)
	}
	w.pending, w.last = nil, revision
	return nil
}

// made reports whether the current state of an object is the result of the attempt. present is false if the
// object does not exist.
func (a attempt) made(name string, got object, present bool) bool {
	if a.after.name == "" {
		return a.before.name == name && !present
	}
	return a.after.name == name && present && got.value == a.after.value && got.group == a.after.group
}

// lastWrites performs a final write, and stores its revision in end, which makes the watchers stop. It then
// performs another write, for watchers that received the final write before its revision was stored.
func lastWrites(ctx context.Context, c *client, group string, end *atomic.Int64) ([]object, error) {
	last, out, err := c.create(ctx, object{name: "last", value: "last", group: group})
	if err != nil || out != done {
		return nil, fmt.Errorf("last write: %s: %w", out, err)
	}
	end.Store(last.revision)
	after, out, err := c.update(ctx, object{name: "last", value: "after it", group: group})
	if err != nil || out != done {
		return nil, fmt.Errorf("write after the last: %s: %w", out, err)
	}
	return []object{last, after}, nil
}
