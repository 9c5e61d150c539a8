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

// visibleNamespaces limits a cursor to the namespaces that its client may see. When the set changes,
// the objects of a lost namespace are sent as DELETED, and the objects of a gained namespace as ADDED.
// A change applies at the revision that the cursor has reached when it reads the set
// (request.Visibility). The events are therefore exact: DELETED is sent for every object of a lost
// namespace that the client has, and each object of a gained namespace is sent once.
type visibleNamespaces struct {
	visibility request.Visibility
	reader     WatchReader
	// current contains the namespaces whose objects were sent to the client.
	current *request.Namespaces
	// changed is closed when the set may have changed.
	changed <-chan struct{}
}

const visibilityChanged = "the visible namespaces have changed since the resource version: list again"

// changes returns a channel that is closed when the set may have changed. It is nil if v is nil.
func (v *visibleNamespaces) changes() <-chan struct{} {
	if v == nil {
		return nil
	}
	return v.changed
}

// listInitial lists the initial objects of a watch. It lists them again if the set of namespaces changes
// during the list. v may be nil.
func (v *visibleNamespaces) listInitial(ctx context.Context, reader WatchReader, plan *ListPlan) (*rest.List, error) {
	if v == nil {
		return reader.ListPlanned(ctx, plan)
	}
	for {
		v.current = v.visibility.Now()
		plan.Namespaces = v.current
		list, err := reader.ListPlanned(ctx, plan)
		if err != nil || v.visibility.IsCurrent(v.current, list.Revision) {
			closed := make(chan struct{})
			close(closed) // makes the cursor read the set before the first changes
			v.changed = closed
			return list, err
		}
	}
}

// resume sets the namespaces of a client that has received all events up to the revision from. The error is
// an *ExpiredError if the set has changed since then, or a *FutureRevisionError if from is greater than
// current.
func (v *visibleNamespaces) resume(from, current int64) error {
	if from > current {
		return &FutureRevisionError{Requested: from, Current: current}
	}
	namespaces, changed, ok := v.visibility.Resume(from)
	if !ok {
		return &ExpiredError{Message: visibilityChanged}
	}
	v.current, v.changed = namespaces, changed
	return nil
}

// filterVisible returns the changes up to the revision progress in visible namespaces. If the set has
// changed, it queues all events up to this revision instead, and returns no changes.
func (c *cursor) filterVisible(ctx context.Context, changes []*Change, progress int64) ([]*Change, error) {
	v := c.visible
	before := v.current
	now, changed, ok := v.visibility.Advance(before, progress)
	if !ok {
		return nil, &ExpiredError{Message: visibilityChanged}
	}
	v.current, v.changed = now, changed
	changes = slices.DeleteFunc(changes, func(c *Change) bool {
		namespace := c.namespace()
		return !before.Has(namespace) || !now.Has(namespace)
	})
	if now == before {
		return changes, nil
	}
	return nil, c.queueDifference(ctx, before, changes, progress)
}

// namespace returns the namespace of the changed object.
func (c *Change) namespace() string {
	if c.Record != nil {
		return c.Record.Name().Namespace
	}
	return c.Prev.Name().Namespace
}

// queueDifference queues the events up to the revision progress, sorted by revision. before is the previous
// set of visible namespaces. changes contains the changes in namespaces that are still visible. The client
// receives the revision progress only with the last events. If it disconnects earlier, it therefore cannot
// resume at progress and miss events.
func (c *cursor) queueDifference(ctx context.Context, before *request.Namespaces, changes []*Change, progress int64) error {
	now := c.visible.current
	lost, err := c.listDifference(ctx, before, now, c.progress)
	if err != nil {
		return err
	}
	gained, err := c.listDifference(ctx, now, before, progress)
	if err != nil {
		return err
	}
	if err := c.appendEvents(ctx, changes); err != nil {
		return err
	}
	queued := c.events
	c.events = nil // queued now owns the array
	at := max(c.progress, progress-1)
	for _, record := range lost {
		queued = append(queued, rest.Event{Type: watch.Deleted, Record: record.WithRevision(at)})
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

// listDifference returns the selected objects, as they were at a revision, in the namespaces that are in the
// set in but not in the set notIn.
func (c *cursor) listDifference(ctx context.Context, in, notIn *request.Namespaces, revision int64) ([]*codec.Record, error) {
	plan := &ListPlan{Selection: c.Selection, At: kv.Revision(revision)}
	plan.Namespaces = in.Without(notIn)
	if notIn == nil || in != nil && len(plan.Namespaces.Names()) == 0 {
		return nil, nil
	}
	list, err := c.visible.reader.ListPlanned(ctx, plan)
	if err != nil {
		return nil, err
	}
	var objects []*codec.Record
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		if !notIn.Has(record.Name().Namespace) {
			objects = append(objects, record)
		}
	}
	return objects, nil
}

// dequeue appends the next queued events to the result of Next.
func (c *cursor) dequeue() {
	n := min(len(c.queued), initialBatch)
	c.events = append(c.events, c.queued[:n]...)
	clear(c.queued[:n]) // release sent records
	c.queued = c.queued[n:]
}
