package reflector_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/fanout"
	"mainstay.dev/mainstay/internal/storage/reflector"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// pods is a storage of pods that fails on demand.
type pods struct {
	testing.TB
	storage.Interface
	backend kv.Backend

	mu    sync.Mutex
	calls []string // "list", and "watch" with the revision it begins at
	// fail returns the error of each call, next the error of each Next, and item the error for each item of a
	// list. A function that is nil causes no errors.
	fail func(call string) error
	next func() error
	item func() error
}

func newPods(t testing.TB) *pods {
	t.Helper()
	return newPodsOn(t, storagetest.InMemory(t))
}

func newPodsOn(t testing.TB, backend kv.Backend) *pods {
	t.Helper()
	store := storagetest.Pods(t, backend)
	return &pods{TB: t, Interface: store, backend: backend}
}

// newPolledPods returns a storage of pods whose watches are rest.Pollers.
func newPolledPods(t testing.TB) *pods {
	t.Helper()
	shared, err := fanout.New(t.Context(), storagetest.InMemory(t), "")
	if err != nil {
		t.Fatal(err)
	}
	return newPodsOn(t, shared)
}

func (p *pods) call(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, name)
	if p.fail == nil {
		return nil
	}
	return p.fail(name)
}

// set calls change under the lock, for example to change the errors. It returns the calls that were recorded
// before.
func (p *pods) set(change func()) (calls string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls = strings.Join(p.calls, " ")
	p.calls = nil
	change()
	return calls
}

func (p *pods) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	if err := p.call("list"); err != nil {
		return nil, err
	}
	list, err := p.Interface.List(ctx, namespace, options)
	if err != nil {
		return nil, err
	}
	broken := *list
	broken.Items = func(yield func(*codec.Record, error) bool) {
		for record, err := range list.Items {
			if failed := p.injected(&p.item); failed != nil {
				yield(nil, failed)
				return
			}
			if !yield(record, err) {
				return
			}
		}
	}
	return &broken, nil
}

func (p *pods) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	if err := p.call("watch " + options.ResourceVersion); err != nil {
		return nil, err
	}
	w, err := p.Interface.Watch(ctx, namespace, options)
	if err != nil {
		return nil, err
	}
	return &brokenWatch{w, p}, nil
}

// injected returns the result of an injected function; nil if there is none.
func (p *pods) injected(what *func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *what == nil {
		return nil
	}
	return (*what)()
}

type brokenWatch struct {
	rest.Watch
	pods *pods
}

func (w *brokenWatch) Next(ctx context.Context) ([]rest.Event, error) {
	if err := w.pods.injected(&w.pods.next); err != nil {
		return nil, err
	}
	return w.Watch.Next(ctx)
}

func (w *brokenWatch) Poll(ctx context.Context, wake func()) ([]rest.Event, error) {
	if err := w.pods.injected(&w.pods.next); err != nil {
		return nil, err
	}
	return rest.Poll(ctx, w.Watch, wake)
}

func (p *pods) create(name string) int64 {
	p.Helper()
	record, err := p.Create(p.Context(), storagetest.Pod("ns", name), storage.WriteOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return record.Revision()
}

func (p *pods) change(name, to string) int64 {
	p.Helper()
	record, err := p.Update(p.Context(), types.NamespacedName{Namespace: "ns", Name: name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		obj, err := current.Object()
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		obj.(*corev1.Pod).Spec.NodeName = to
		return obj, storage.WriteOptions{}, nil
	}, storage.UpdateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return record.Revision()
}

func (p *pods) remove(name string) int64 {
	p.Helper()
	record, err := p.Delete(p.Context(), types.NamespacedName{Namespace: "ns", Name: name}, nil, storage.UpdateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return record.Revision()
}

// mirror is the copy of pods that a Reflector should maintain. It detects lost, duplicate and
// reordered events.
type mirror struct {
	mu       sync.Mutex
	revision int64
	there    map[string]int64 // names with revisions
	replaced int
	wrong    []string
	// fail, if set, returns an error or panics.
	fail func() error
}

func (m *mirror) replace(_ context.Context, list *rest.List) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if list.Revision < m.revision {
		m.recordf("a list of revision %d after %d", list.Revision, m.revision)
	}
	there := map[string]int64{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		there[record.Name().Name] = record.Revision()
	}
	m.replaced++
	m.there, m.revision = there, list.Revision
	return m.injectedFailure()
}

func (m *mirror) apply(_ context.Context, events []rest.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(events) == 0 {
		m.recordf("no events")
	}
	for _, e := range events {
		name, revision := e.Record.Name().Name, e.Record.Revision()
		if revision <= m.revision {
			m.recordf("%s %s at %d after %d", e.Type, name, revision, m.revision)
		}
		if _, known := m.there[name]; known == (e.Type == watch.Added) {
			m.recordf("%s %s at %d, but known before is %t", e.Type, name, revision, known)
		}
		m.revision = revision
		if e.Type == watch.Deleted {
			delete(m.there, name)
		} else {
			m.there[name] = revision
		}
	}
	return m.injectedFailure()
}

func (m *mirror) recordf(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

func (m *mirror) injectedFailure() error {
	if m.fail == nil {
		return nil
	}
	return m.fail()
}

// read returns the contents and the number of replacements.
func (m *mirror) read() (there string, replaced int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.there), m.replaced
}

func (m *mirror) check(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, wrong := range m.wrong {
		t.Error(wrong)
	}
}

// lines is a log handler's output: a level and a message per line.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(line)))
	return len(line), nil
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "after" || a.Key == "err" {
			return slog.Attr{}
		}
		return a
	}}))
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// newReflector returns a Reflector that maintains a mirror of pods; change may modify its
// configuration.
func newReflector(t testing.TB, p *pods, m *mirror, change func(*reflector.Config)) *reflector.Reflector {
	t.Helper()
	config := reflector.Config{Name: "pods", Collection: p, Replace: m.replace, Apply: m.apply}
	if change != nil {
		change(&config)
	}
	f, err := reflector.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs a Reflector until stop is called or the test ends.
func run(t testing.TB, f *reflector.Reflector) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}
