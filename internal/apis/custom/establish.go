package custom

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

const (
	// maxRetry bounds the backoff of retries.
	maxRetry = time.Second
	// sweepPeriod is how often unused state is looked for.
	sweepPeriod = 30 * time.Second
	// finalizers is of how many definitions the objects are deleted concurrently,
	// writers how many statuses are written concurrently.
	finalizers = 4
	writers    = 32
)

// Load reads all stored definitions. It must be called before requests are served.
func (s *Source) Load(ctx context.Context) error { return s.loop.reflector.Load(ctx) }

// Run follows the stored definitions until ctx ends: it accepts names, establishes definitions,
// finalizes deleted ones and drops unused state. One goroutine decides names sequentially, unless
// they were promised to the writer of the definition; several goroutines write the decisions, so
// that writes share fsyncs.
func (s *Source) Run(ctx context.Context) error {
	var sweeper sync.WaitGroup
	sweeper.Go(func() { s.runSweeper(ctx) })
	s.loop.reflector.Run(ctx)
	sweeper.Wait()
	s.loop.finalizers.Wait()
	_ = s.loop.writers.Wait() // they log their errors
	s.webhooks.CloseIdleConnections()
	return nil
}

// loop is the controller of definitions. Its goroutines end with Run.
type loop struct {
	*Source
	reflector *reflector.Reflector
	// finalizing are the deleted definitions whose objects are being deleted; only the reflector's
	// goroutine uses it. atWork limits the concurrent finalizations.
	finalizing map[types.UID]bool
	// structures are the generations of old definitions with checked schemas; only the reflector's
	// goroutine uses it.
	structures map[types.UID]int64
	atWork     chan struct{}
	finalizers sync.WaitGroup
	writers    errgroup.Group
}

func newLoop(s *Source) (*loop, error) {
	l := &loop{Source: s, atWork: make(chan struct{}, finalizers), finalizing: map[types.UID]bool{}, structures: map[types.UID]int64{}}
	l.writers.SetLimit(writers)
	var err error
	l.reflector, err = reflector.New(reflector.Config{
		Name: "definitions", Collection: s.config.Definitions, Replace: l.replace, Begin: l.syncAll, Apply: l.apply,
		Logger: s.logger, Metrics: s.config.Reflectors,
	})
	return l, err
}

// now is the time that clients see.
func (l *loop) now() time.Time { return simulation.Now(l.config.Lifetime) }

// replace replaces the entries by a list of all definitions.
func (l *loop) replace(_ context.Context, list *rest.List) error {
	there := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		there[record.Name().Name] = true
		if crd, err := headOf(record); err != nil {
			l.logUnreadable(record, err)
		} else {
			l.update(newEntry(crd, record.Revision()), true)
		}
	}
	for e := range l.current.Load().all() {
		if !there[e.name] {
			l.forget(e.uid)
			l.remove(e.name, list.Revision)
		}
	}
	l.markReplaced(list.Revision)
	return nil
}

// syncAll syncs all entries when following begins.
func (l *loop) syncAll(ctx context.Context) error {
	for e := range l.current.Load().all() {
		if err := l.syncEntry(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) apply(ctx context.Context, events []rest.Event) error {
	for i := range events {
		event := &events[i]
		var err error
		if e := l.currentEntry(event.Record); e != nil && event.Type != apiwatch.Deleted {
			l.markFollowed(e)
			err = l.syncRecord(ctx, e, event.Record)
		} else {
			err = l.applyEvent(ctx, event)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyEvent applies a watch event that is not in the snapshot yet.
func (l *loop) applyEvent(ctx context.Context, event *rest.Event) error {
	crd, err := headOf(event.Record)
	if err != nil {
		l.logUnreadable(event.Record, err)
		return nil
	}
	if event.Type == apiwatch.Deleted {
		l.forget(crd.UID)
		l.remove(crd.Name, event.Record.Revision())
		return l.syncGroup(ctx, crd.Spec.Group)
	}
	l.update(newEntry(crd, event.Record.Revision()), true)
	return l.sync(ctx, crd, event.Record)
}

// forget drops the state of a deleted definition.
func (l *loop) forget(uid types.UID) {
	delete(l.finalizing, uid)
	delete(l.structures, uid)
}

func (l *loop) logUnreadable(record *codec.Record, err error) {
	l.logger.Error("a definition cannot be read and is not taken up", "name", record.Name().Name, "err", err)
}

// syncGroup syncs the definitions of a group without all their names, because some may be free now.
// It skips terminating definitions: with thousands of them, checking each after every deletion
// would dominate the time.
func (l *loop) syncGroup(ctx context.Context, name string) error {
	for e := range l.current.Load().group(name) {
		if e.terminating {
			continue
		}
		if err := l.syncEntry(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// syncEntry syncs a definition, unless its entry is synced.
func (l *loop) syncEntry(ctx context.Context, e *entry) error {
	if e.isSynced() && !l.structureOpen(e) {
		return nil
	}
	record, err := l.stored(ctx, e.name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.syncRecord(ctx, e, record)
}

// isSynced reports whether a definition needs neither a write of its status nor
// finalization.
func (e *entry) isSynced() bool {
	return !e.terminating && (e.decided != nil && e.decided.underway && e.decided.namesAccepted || e.namesAccepted && e.established && !e.approvalOpen && e.accepted.equal(e.requested))
}

// syncRecord is syncEntry with the record of the definition at hand.
func (l *loop) syncRecord(ctx context.Context, e *entry, record *codec.Record) error {
	if e.isSynced() && !l.structureOpen(e) {
		return nil
	}
	crd, err := headOf(record)
	if err != nil {
		return err
	}
	return l.sync(ctx, crd, record)
}

// sync writes the conditions of a definition if they differ, and finalizes it if it is
// being deleted. It does not change crd.
func (l *loop) sync(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, record *codec.Record) error {
	if crd.DeletionTimestamp != nil {
		l.startFinalizing(ctx, crd.Name, crd.UID)
		return nil
	}
	structure, err := l.structureOf(crd, record)
	if err != nil {
		return err
	}
	trial := *crd
	trial.Status.Conditions = slices.Clone(crd.Status.Conditions)
	if !l.updateConditions(&trial, structure) {
		return nil
	}
	freed := l.claim(&trial)
	uid := crd.UID
	l.writers.Go(func() error {
		retry(ctx, func() bool { return l.writeConditions(ctx, record, uid, structure) })
		return nil
	})
	if freed {
		return l.syncGroup(ctx, crd.Spec.Group)
	}
	return nil
}

// retry calls do, with backoff, until it returns true or ctx ends.
func retry(ctx context.Context, do func() (done bool)) {
	backoff := reflector.Backoff(maxRetry)
	for !do() && reflector.Sleep(ctx, &backoff) == nil {
	}
}

// claim decides on the names of a definition, and puts the decision into effect before
// it is written: no other definition gets the names, and no client that reads the
// condition Established finds the resource missing. It reports whether names that the
// definition had were freed.
func (l *loop) claim(crd *apiextensionsv1.CustomResourceDefinition) (freed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.current.Load()
	old := now.find(crd.Spec.Group, crd.Spec.Names.Plural)
	if old == nil || old.uid != crd.UID || old.generation != crd.Generation {
		return false
	}
	e := *old
	e.decided = &decision{
		names:         namesOf(&crd.Status.AcceptedNames).clone(),
		namesAccepted: definition.IsTrue(crd, apiextensionsv1.NamesAccepted),
		established:   definition.IsTrue(crd, apiextensionsv1.Established),
		underway:      true,
	}
	l.swapLocked(now.with(e.group, e.requested.plural, &e), old, &e)
	if old.isServed() && !e.isServed() {
		e.state.markReady() // requests that wait for the promise are rejected
	}
	return old.reservedNames().kind != "" && !e.reservedNames().equal(old.reservedNames())
}

// writeConditions writes the decision on a definition's names. It reports whether it is
// done, so that it need not be retried.
func (l *loop) writeConditions(ctx context.Context, record *codec.Record, uid types.UID, s structure) bool {
	var written *apiextensionsv1.CustomResourceDefinition
	now, err := l.write(ctx, record.Name().Name, record, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		written = crd
		if crd.UID != uid || crd.DeletionTimestamp != nil {
			return false // the watch has another one
		}
		return l.updateConditions(crd, s)
	})
	if errors.Is(err, storage.ErrNotFound) {
		return true
	}
	if err == nil {
		l.update(newEntry(written, now.Revision()), false)
	}
	if err != nil && ctx.Err() == nil {
		l.logger.Warn("the status of a definition cannot be written yet", "definition", record.Name().Name, "err", err)
	}
	return err == nil
}

// write updates a definition's status and returns the stored record. change receives the definition
// without its schemas, and returns false if no write is necessary. known is an initial record, or
// nil.
func (l *loop) write(ctx context.Context, name string, known *codec.Record, change func(*apiextensionsv1.CustomResourceDefinition) bool) (*codec.Record, error) {
	return l.config.Definitions.Update(ctx, types.NamespacedName{Name: name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		if current == nil {
			return nil, storage.WriteOptions{}, storage.ErrNotFound
		}
		obj, err := restate(current, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
			was := crd.Status
			was.Conditions = slices.Clone(was.Conditions)
			if !change(crd) {
				return false
			}
			recordStatus(crd, &was, l.now())
			return true
		})
		return obj, storage.WriteOptions{}, err
	}, storage.UpdateOptions{Cached: known})
}

func (s *Source) runSweeper(ctx context.Context) {
	ticker := time.NewTicker(sweepPeriod)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.sweep(now)
		case <-ctx.Done():
			return
		}
	}
}

// sweep drops state that has not been used for Config.Idle.
func (s *Source) sweep(now time.Time) {
	since := now.Add(-s.config.Idle)
	for e := range s.current.Load().all() {
		e.state.forget(since)
	}
	for _, resource := range s.takeGone(now.Add(-sweepPeriod)) {
		s.config.Gone(resource)
	}
}
