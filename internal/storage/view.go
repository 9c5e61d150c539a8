package storage

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// view limits a Cursor to the namespaces that its client may see, as they change: the objects of a
// lost namespace are sent as DELETED, those of a gained namespace as ADDED. Permissions apply from
// the revision that the cursor has reached when it requests them (request.Visibility), so both are
// exact: lost objects are the ones that the client has, and gained objects are sent once.
type view struct {
	rights request.Visibility
	list   ListFunc
	// of are the namespaces whose objects the client has.
	of *request.Namespaces
	// wake is closed when they may have changed.
	wake <-chan struct{}
}

const rightsChanged = "the visible namespaces have changed since the resource version: list again"

// changed is closed when rights may have changed; nil without a view.
func (v *view) changed() <-chan struct{} {
	if v == nil {
		return nil
	}
	return v.wake
}

// initial lists the initial objects of a watch. Each iteration handles a change of permissions.
func (v *view) initial(ctx context.Context, plan *ListPlan, list ListFunc) (*rest.List, error) {
	if v == nil {
		return list(ctx, plan)
	}
	for {
		v.of = v.rights.Now()
		plan.Namespaces = v.of
		initial, err := list(ctx, plan)
		if err != nil || v.rights.IsCurrent(v.of, initial.Revision) {
			asked := make(chan struct{})
			close(asked) // request pending changes first
			v.wake = asked
			return initial, err
		}
	}
}

// resume begins where the client has seen everything up to a revision.
func (v *view) resume(from, current int64) error {
	if from > current {
		return &FutureRevisionError{Asked: from, Current: current}
	}
	of, changed, ok := v.rights.Resume(from)
	if !ok {
		return &ExpiredError{Message: rightsChanged}
	}
	v.of, v.wake = of, changed
	return nil
}

// visible returns the changes up to a revision that are sent unchanged. If permissions have
// changed, it returns none and queues all events.
func (c *Cursor) visible(ctx context.Context, changes []*Change, progress int64) ([]*Change, error) {
	v := c.view
	before := v.of
	now, changed, ok := v.rights.Advance(before, progress)
	if !ok {
		return nil, &ExpiredError{Message: rightsChanged}
	}
	v.of, v.wake = now, changed
	changes = slices.DeleteFunc(changes, func(c *Change) bool {
		namespace := c.namespace()
		return !before.Has(namespace) || !now.Has(namespace)
	})
	if now == before {
		return changes, nil
	}
	return nil, c.queueDifference(ctx, before, changes, progress)
}

// namespace is that of the changed object.
func (c *Change) namespace() string {
	if c.Record != nil {
		return c.Record.Name().Namespace
	}
	return c.Prev.Name().Namespace
}

// queueDifference queues the events for a client with the namespaces before, up to a revision. kept
// are the changes in namespaces that stay visible. The events are in order of their revisions, so a
// client that is disconnected before the end has not received this revision, and cannot resume from
// it.
func (c *Cursor) queueDifference(ctx context.Context, before *request.Namespaces, kept []*Change, progress int64) error {
	now := c.view.of
	lost, err := c.objects(ctx, before, now, c.progress)
	if err != nil {
		return err
	}
	gained, err := c.objects(ctx, now, before, progress)
	if err != nil {
		return err
	}
	if err := c.events(ctx, kept); err != nil {
		return err
	}
	queued := c.out
	c.out = nil // Next clears it
	at := max(c.progress, progress-1)
	for _, record := range lost {
		queued = append(queued, rest.Event{Type: watch.Deleted, Record: record.At(at)})
	}
	for _, record := range gained {
		queued = append(queued, rest.Event{Type: watch.Added, Record: record})
	}
	slices.SortStableFunc(queued, func(a, b rest.Event) int { return cmp.Compare(a.Record.Revision(), b.Record.Revision()) })
	if c.Bookmarks && len(queued) > 0 {
		queued = append(queued, rest.Event{Type: watch.Bookmark, Revision: progress})
		c.bookmarked = progress
	}
	c.queued = queued
	return nil
}

// objects returns the selected objects at a revision of the namespaces that are in the
// one set and not in the other.
func (c *Cursor) objects(ctx context.Context, in, notIn *request.Namespaces, at int64) ([]*codec.Record, error) {
	plan := &ListPlan{Selection: c.Selection, At: kv.Revision(at)}
	plan.Namespaces = in.Without(notIn)
	if notIn == nil || in != nil && len(plan.Namespaces.Names()) == 0 {
		return nil, nil
	}
	list, err := c.view.list(ctx, plan)
	if err != nil {
		return nil, err
	}
	var found []*codec.Record
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		if !notIn.Has(record.Name().Namespace) {
			found = append(found, record)
		}
	}
	return found, nil
}

// dequeue returns the next queued events.
func (c *Cursor) dequeue() {
	n := min(len(c.queued), initialBatch)
	c.out = append(c.out, c.queued[:n]...)
	clear(c.queued[:n]) // release sent events
	c.queued = c.queued[n:]
}
