package custom

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

const (
	// maxRetryDelay is the maximum delay between attempts of a status write or finalization.
	maxRetryDelay = time.Second
	// sweepPeriod is the interval between searches for unused state.
	sweepPeriod = 30 * time.Second
	// maxFinalizations is the maximum number of definitions whose objects are deleted concurrently.
	maxFinalizations = 4
	// maxStatusWrites is the maximum number of concurrent status writes.
	maxStatusWrites = 32
)

// Load reads all stored definitions. It must be called before requests are served, and not while the Reflector
// runs. It may be called again after an error.
func (s *Source) Load(ctx context.Context) error { return s.controller.reflector.Load(ctx) }

// Reflector returns the reflector of the stored definitions, which the caller must run. It decides on names,
// writes conditions, and deletes the objects of terminating definitions. The caller must call Wait after the
// reflector has ended.
func (s *Source) Reflector() *reflector.Reflector { return s.controller.reflector }

// Wait waits for the tasks that the reflector has started. The tasks end when the context of the reflector
// ends.
func (s *Source) Wait() {
	s.controller.tasks.Wait()
	s.webhooks.CloseIdleConnections()
}

// controller establishes and finalizes definitions. The goroutine of the reflector makes all decisions in
// revision order. Status writes and finalizations are tasks on other goroutines, because they block; concurrent
// status writes share an fsync.
type controller struct {
	*Source
	reflector *reflector.Reflector

	// finalizing contains the terminating definitions with a finalization task. checkedSchemas contains the
	// generation at which the schemas of an old definition were last checked (see structure). Both are keyed by
	// UID. Only the reflector's goroutine uses them.
	finalizing     map[types.UID]bool
	checkedSchemas map[types.UID]int64

	// startStatusWrite and startFinalization start a task, which is repeated until it returns true or
	// ctx ends. Tests replace them to control the order of tasks.
	startStatusWrite, startFinalization func(ctx context.Context, task func() (done bool))

	tasks sync.WaitGroup // the running tasks
}

func newController(s *Source) (*controller, error) {
	c := &controller{
		Source: s, finalizing: map[types.UID]bool{}, checkedSchemas: map[types.UID]int64{},
	}
	c.startStatusWrite = c.starter(make(taskSlots, maxStatusWrites))
	c.startFinalization = c.starter(make(taskSlots, maxFinalizations))
	if s.config.ReadOnly {
		none := func(context.Context, func() bool) {}
		c.startStatusWrite, c.startFinalization = none, none
	}
	var err error
	c.reflector, err = reflector.New(reflector.Config{
		Name: "definitions", Collection: s.config.Definitions, Replace: c.replace, BeforeWatch: c.syncAll, Apply: c.apply,
		Logger: s.logger, Metrics: s.config.Reflectors,
	})
	return c, err
}

// taskSlots limits the number of concurrent attempts. Tasks wait for a slot; the reflector that starts the
// tasks does not wait.
type taskSlots chan struct{}

// run runs an attempt in a slot. It returns false if ctx ends before a slot is free.
func (s taskSlots) run(ctx context.Context, task func() (done bool)) bool {
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
	case <-ctx.Done():
		return false
	}
	return task()
}

// starter returns the function that starts tasks whose attempts run in slots.
func (c *controller) starter(slots taskSlots) func(context.Context, func() bool) {
	return func(ctx context.Context, task func() bool) {
		c.tasks.Go(func() { retry(ctx, func() bool { return slots.run(ctx, task) }) })
	}
}

// retry calls task, with backoff, until it returns true or ctx ends.
func retry(ctx context.Context, task func() (done bool)) {
	backoff := reflector.Backoff(maxRetryDelay)
	for !task() && reflector.Sleep(ctx, &backoff) == nil {
	}
}

// now returns the time for conditions, which simulations control.
func (c *controller) now() time.Time { return simulation.Now(c.config.Lifetime) }

// replace replaces all entries with the entries of a list of the stored definitions. It implements
// reflector.Config.Replace.
func (c *controller) replace(_ context.Context, list *rest.List) error {
	listed := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		listed[record.Name().Name] = true
		if crd, err := decodeWithoutSchemas(record); err != nil {
			c.logUndecodable(record, err)
		} else {
			c.observe(newEntry(crd, record.Revision()), true)
		}
	}
	for e := range c.current.Load().all() {
		if !listed[e.name] {
			c.forget(e.uid)
			c.remove(e.name, list.Revision)
		}
	}
	c.markReplaced(list.Revision)
	return nil
}

// syncAll syncs all entries after a list. It implements reflector.Config.BeforeWatch.
func (c *controller) syncAll(ctx context.Context) error {
	for e := range c.current.Load().all() {
		if err := c.syncEntry(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// apply applies watch events. It implements reflector.Config.Apply.
func (c *controller) apply(ctx context.Context, events []rest.Event) error {
	for i := range events {
		event := &events[i]
		var err error
		if e := c.currentEntry(event.Record); e != nil && event.Type != apiwatch.Deleted {
			c.markReflected(e)
			err = c.syncRecord(ctx, e, event.Record)
		} else {
			err = c.applyEvent(ctx, event)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyEvent applies a watch event whose revision is not in the snapshot.
func (c *controller) applyEvent(ctx context.Context, event *rest.Event) error {
	crd, err := decodeWithoutSchemas(event.Record)
	if err != nil {
		c.logUndecodable(event.Record, err)
		return nil
	}
	if event.Type == apiwatch.Deleted {
		c.forget(crd.UID)
		c.remove(crd.Name, event.Record.Revision())
		return c.syncGroup(ctx, crd.Spec.Group)
	}
	c.observe(newEntry(crd, event.Record.Revision()), true)
	return c.sync(ctx, crd, event.Record)
}

// forget drops the controller's state of a deleted definition.
func (c *controller) forget(uid types.UID) {
	delete(c.finalizing, uid)
	delete(c.checkedSchemas, uid)
}

func (c *controller) logUndecodable(record *codec.Record, err error) {
	c.logger.Error("a definition cannot be decoded and is ignored", "name", record.Name().Name, "err", err)
}

// syncGroup syncs the definitions of a group that do not have all requested names, because some names may be
// free now. It skips terminating definitions, because checking thousands of them after every deletion would
// take too long.
func (c *controller) syncGroup(ctx context.Context, name string) error {
	for e := range c.current.Load().group(name) {
		if e.stored.terminating {
			continue
		}
		if err := c.syncEntry(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// syncEntry syncs a definition, which it reads from the store if necessary.
func (c *controller) syncEntry(ctx context.Context, e *entry) error {
	if e.isSynced() && !c.needsCheck(e) {
		return nil
	}
	record, err := c.readRecord(ctx, e.name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil // the watch will report the deletion
	}
	if err != nil {
		return err
	}
	return c.syncRecord(ctx, e, record)
}

// isSynced reports whether the controller has nothing to do for a definition. Either the definition needs
// neither a status write nor a finalization, or the controller has already started the status write.
func (e *entry) isSynced() bool {
	if e.stored.terminating {
		return false
	}
	isWriting := e.decision != nil && e.decision.writing && e.decision.accepted
	return isWriting || e.stored.namesAccepted && e.stored.established && !e.approvalOutdated && e.accepted.equal(e.requested)
}

// syncRecord syncs a definition if necessary. record is its newest record.
func (c *controller) syncRecord(ctx context.Context, e *entry, record *codec.Record) error {
	if e.isSynced() && !c.needsCheck(e) {
		return nil
	}
	crd, err := decodeWithoutSchemas(record)
	if err != nil {
		return err
	}
	return c.sync(ctx, crd, record)
}

// sync starts a finalization if a definition is terminating. Otherwise it decides on the names and
// conditions, and starts a status write if they differ from the stored ones. It does not modify crd.
func (c *controller) sync(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, record *codec.Record) error {
	if crd.DeletionTimestamp != nil {
		c.finalize(ctx, crd.Name, crd.UID)
		return nil
	}
	if e := c.current.Load().named(crd.Name); e != nil && e.revision > record.Revision() {
		return nil // a writer of this server has applied a newer revision, whose event follows
	}
	structure, err := c.checkStructure(crd, record)
	if err != nil {
		return err
	}
	decided := *crd
	decided.Status.Conditions = slices.Clone(crd.Status.Conditions)
	if !c.updateConditions(&decided, structure) {
		return nil
	}
	released := c.decide(&decided)
	uid := crd.UID
	c.startStatusWrite(ctx, func() bool { return c.writeConditions(ctx, record, uid, structure) })
	if released {
		return c.syncGroup(ctx, crd.Spec.Group)
	}
	return nil
}

// writeConditions decides on the conditions of a definition and writes them. record is a recent record
// of the definition. done is false if the write failed and must be repeated.
func (c *controller) writeConditions(ctx context.Context, record *codec.Record, uid types.UID, s structure) (done bool) {
	var written *apiextensionsv1.CustomResourceDefinition
	stored, err := c.updateStatus(ctx, record.Name().Name, record, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		written = crd
		if crd.UID != uid || crd.DeletionTimestamp != nil {
			return false // the controller receives the event of the deletion or replacement
		}
		return c.updateConditions(crd, s)
	})
	if errors.Is(err, storage.ErrNotFound) {
		return true
	}
	if err != nil {
		if ctx.Err() == nil {
			c.logger.Warn("status write of a definition failed, retrying", "definition", record.Name().Name, "err", err)
		}
		return false
	}
	c.observe(newEntry(written, stored.Revision()), false)
	return true
}

// updateStatus updates the status of a definition and returns the stored record. change receives the definition
// without its schemas, and returns false if no write is necessary. change may be called more than once. cached
// is a recent record, or nil. The error wraps storage.ErrNotFound if the definition does not exist.
func (c *controller) updateStatus(ctx context.Context, name string, cached *codec.Record, change func(*apiextensionsv1.CustomResourceDefinition) bool) (*codec.Record, error) {
	return c.config.Definitions.Update(ctx, types.NamespacedName{Name: name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		if current == nil {
			return nil, storage.WriteOptions{}, storage.ErrNotFound
		}
		obj, err := withStatus(current, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
			previous := crd.Status
			previous.Conditions = slices.Clone(previous.Conditions)
			if !change(crd) {
				return false
			}
			recordStatus(crd, &previous, c.now())
			return true
		})
		return obj, storage.WriteOptions{}, err
	}, storage.UpdateOptions{Cached: cached})
}

// Run drops unused state periodically until ctx ends. It returns nil.
func (s *Source) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepPeriod)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.sweep(now)
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep drops state that has not been used for Config.Idle, and reports removed resources.
func (s *Source) sweep(now time.Time) {
	since := now.Add(-s.config.Idle)
	for e := range s.current.Load().all() {
		e.derived.dropUnused(since)
	}
	for _, resource := range s.takeRemoved(now.Add(-sweepPeriod)) {
		s.config.Removed(resource)
	}
}
