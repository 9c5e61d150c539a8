package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Config is the configuration of a Ledger.
type Config struct {
	// Stored is the storage of the quotas, without the watch cache and with the Ledger's Observer.
	// Required.
	Stored storage.Interface
	// RecordOwnership marks the server as the field manager of a changed quota status; nil leaves the
	// managers unchanged.
	RecordOwnership func(live, quota *corev1.ResourceQuota) (codec.Object, error)
	// WrapDenied converts the error of a write that exceeds a quota to a response; nil returns it
	// unchanged.
	WrapDenied func(error) error
	// Limited are the resources that need a quota.
	Limited []Limited
	// Logger is required.
	Logger *slog.Logger
	// Metrics of the Reflector; nil disables them.
	Metrics *reflector.Metrics
}

// Ledger contains the quotas of all namespaces. It is safe for concurrent use after Configure.
type Ledger struct {
	config Config

	mu         sync.RWMutex
	namespaces map[string][]*codec.Record // sorted by name; slices are immutable
	tracker    reflector.VersionTracker

	locks locks
}

// Resource returns the resource of quotas.
func Resource() schema.GroupResource { return schema.GroupResource{Resource: "resourcequotas"} }

// New returns a Ledger without quotas. Call Configure before all methods except Observer and Account.
func New() *Ledger { return &Ledger{namespaces: map[string][]*codec.Record{}} }

// Configure sets the configuration. It must be called before all methods except Observer and Account, and not
// concurrently with other methods.
func (l *Ledger) Configure(config Config) { l.config = config }

// records returns the quotas of a namespace, sorted by name. In a namespace without quotas, this lookup is
// the only cost of quotas for a write.
func (l *Ledger) records(namespace string) []*codec.Record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.namespaces[namespace]
}

// Quotas returns the quotas of a namespace, sorted by name. The objects are shared and must not be
// modified. The caller owns the slice.
func (l *Ledger) Quotas(namespace string) []*corev1.ResourceQuota {
	records := l.records(namespace)
	if len(records) == 0 {
		return nil
	}
	quotas := make([]*corev1.ResourceQuota, 0, len(records))
	for _, record := range records {
		if quota := l.read(record); quota != nil {
			quotas = append(quotas, quota)
		}
	}
	return quotas
}

// QuotaAt returns a quota if the ledger contains it at a revision, otherwise nil. The object is
// shared and must not be modified.
func (l *Ledger) QuotaAt(name types.NamespacedName, revision int64) *corev1.ResourceQuota {
	records := l.records(name.Namespace)
	i, found := find(records, name)
	if !found || records[i].Revision() != revision {
		return nil
	}
	return l.read(records[i])
}

// read returns the quota of a record, or nil if the record cannot be decoded.
func (l *Ledger) read(record *codec.Record) *corev1.ResourceQuota {
	quota, err := codec.CachedAs[*corev1.ResourceQuota](record)
	if err != nil {
		l.config.Logger.Error("a quota cannot be decoded and is not enforced", "name", record.Name(), "err", err)
		return nil
	}
	return quota
}

// Check returns an error if the quotas do not permit a write. Before it returns an error, it reads the
// current quotas from storage, which blocks. The error is a DeniedError or an API error. A nil error
// does not reserve anything: concurrent writes can use the quota first (see Account).
func (l *Ledger) Check(ctx context.Context, w *Write) error {
	records := l.records(w.Namespace)
	if len(records) == 0 && len(l.config.Limited) == 0 {
		return nil
	}
	m, ok := measure(ctx, w)
	if !ok || w.Object == nil || !m.enforces(w.Old == nil, w.Subresource) {
		return nil
	}
	if m.check(l.Quotas(w.Namespace), l.config.Limited) == nil {
		return nil
	}
	if err := l.refresh(ctx, w.Namespace); err != nil {
		return err
	}
	return m.check(l.Quotas(w.Namespace), l.config.Limited)
}

// refresh reads the current quotas of a namespace.
func (l *Ledger) refresh(ctx context.Context, namespace string) error {
	list, err := l.config.Stored.List(ctx, namespace, rest.ListOptions{})
	if err != nil {
		return fmt.Errorf("read the quotas of namespace %s: %w", namespace, err)
	}
	records, err := collect(list)
	if err != nil {
		return fmt.Errorf("read the quotas of namespace %s: %w", namespace, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.namespaces[namespace] {
		if !slices.ContainsFunc(records, func(r *codec.Record) bool { return r.Name() == known.Name() }) && l.tracker.Written(key(known.Name()), list.Revision) {
			l.removeLocked(known.Name())
		}
	}
	for _, record := range records {
		if l.tracker.Written(key(record.Name()), record.Revision()) {
			l.setLocked(record)
		}
	}
	return nil
}

func collect(list *rest.List) ([]*codec.Record, error) {
	var records []*codec.Record
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, nil
}

func key(name types.NamespacedName) string { return name.Namespace + "/" + name.Name }

func (l *Ledger) setLocked(record *codec.Record) {
	name := record.Name()
	records := l.namespaces[name.Namespace]
	i, found := find(records, name)
	records = slices.Clone(records)
	if found {
		records[i] = record
	} else {
		records = slices.Insert(records, i, record)
	}
	l.namespaces[name.Namespace] = records
}

func (l *Ledger) removeLocked(name types.NamespacedName) {
	records := l.namespaces[name.Namespace]
	i, found := find(records, name)
	switch {
	case !found:
	case len(records) == 1:
		delete(l.namespaces, name.Namespace)
	default:
		l.namespaces[name.Namespace] = slices.Delete(slices.Clone(records), i, i+1)
	}
}

func find(records []*codec.Record, name types.NamespacedName) (int, bool) {
	return slices.BinarySearchFunc(records, name.Name, func(r *codec.Record, name string) int { return strings.Compare(r.Name().Name, name) })
}

// Observer returns an observer of quota writes, with which each write takes effect in the ledger before its
// response.
func (l *Ledger) Observer() *storage.Observer {
	return &storage.Observer{
		Written: func(record *codec.Record) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.tracker.Written(key(record.Name()), record.Revision()) {
				l.setLocked(record)
			}
			return nil
		},
		Deleted: func(name types.NamespacedName, revision int64) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.tracker.Written(key(name), revision) {
				l.removeLocked(name)
			}
		},
	}
}

// Reflector returns the reflector that updates the Ledger. Configure must have been called. It
// returns an error if the Config lacks a required field.
func (l *Ledger) Reflector() (*reflector.Reflector, error) {
	return reflector.New(reflector.Config{
		Name: "resourcequotas", Collection: l.config.Stored, Logger: l.config.Logger, Metrics: l.config.Metrics,
		Replace: l.replace,
		Apply: func(_ context.Context, events []rest.Event) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			for i := range events {
				l.applyLocked(&events[i])
			}
			return nil
		},
	})
}

func (l *Ledger) applyLocked(event *rest.Event) {
	name := event.Record.Name()
	switch {
	case !l.tracker.Reflected(key(name), event.Record.Revision()):
	case event.Type == watch.Deleted:
		l.removeLocked(name)
	default:
		l.setLocked(event.Record)
	}
}

// replace applies a list of all quotas.
func (l *Ledger) replace(_ context.Context, list *rest.List) error {
	records, err := collect(list)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	deleted := map[types.NamespacedName]bool{}
	for _, known := range l.namespaces {
		for _, record := range known {
			deleted[record.Name()] = true
		}
	}
	for _, record := range records {
		delete(deleted, record.Name())
		if l.tracker.Reflected(key(record.Name()), record.Revision()) {
			l.setLocked(record)
		}
	}
	for name := range deleted {
		if l.tracker.Reflected(key(name), list.Revision) {
			l.removeLocked(name)
		}
	}
	l.tracker.Replaced(list.Revision)
	return nil
}

// Lock acquires the lock of a namespace, and returns the function that releases it. All writers of this
// process that change the usage of the namespace's quotas must hold the lock, because each write changes the
// quotas, and concurrent changes of a quota conflict. If ctx ends first, Lock returns an error that wraps the
// error of ctx.
func (l *Ledger) Lock(ctx context.Context, namespace string) (unlock func(), err error) {
	return l.locks.lock(ctx, namespace)
}

// locks is a set of locks by name. A lock exists while goroutines hold it or wait for it.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	free  chan struct{} // contains one token while the lock is free
	users int
}

func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	one := l.acquire(name)
	select {
	case <-one.free:
		return func() { one.free <- struct{}{}; l.release(name, one) }, nil
	case <-ctx.Done():
		l.release(name, one)
		return nil, errors.Join(errors.New("wait for other writers of objects in the namespace"), ctx.Err())
	}
}

func (l *locks) acquire(name string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]*lock{}
	}
	one := l.held[name]
	if one == nil {
		one = &lock{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		l.held[name] = one
	}
	one.users++
	return one
}

func (l *locks) release(name string, one *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(l.held, name)
	}
}
