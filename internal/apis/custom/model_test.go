package custom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestModel applies random operations of clients, of the controller and of the network to one server or to two
// servers over the same store, and checks the invariants in the package comment after each operation. All steps
// run one after the other, in an order that depends only on the seed. Watch events are delivered and controller
// tasks run when the test selects them.
func TestModel(t *testing.T) {
	t.Parallel()
	seeds, steps := uint64(30), 150
	if testing.Short() {
		seeds = 8
	}
	for _, servers := range []int{1, 2} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%d servers, seed %d", servers, seed), func(t *testing.T) {
				t.Parallel()
				m := newModel(t, rand.New(rand.NewPCG(seed, uint64(servers))), servers)
				for range steps {
					m.step()
				}
				m.quiesce()
				for _, name := range definitionNames {
					m.deleteDefinition(m.servers[0], name)
				}
				m.quiesce()
				if left := m.keys("/registry/"); len(left) > 0 {
					t.Errorf("left in the store: %v", left)
				}
			})
		}
	}
}

const modelGroup = "example.com"

var (
	definitionNames = []string{"as", "bs", "cs"} // plural names
	kinds           = []string{"K", "L"}
	shortNames      = []string{"s", "t"}
	objectNames     = []string{"x", "y"}
)

// model is the reference for the servers. It contains the history of the stored definitions and the set of
// created objects.
type model struct {
	t       *testing.T
	ctx     context.Context
	random  *rand.Rand
	backend kv.Backend
	servers []*modelServer
	trace   []string // the operations so far, for failures
	uids    int

	// events contains all events of definitions. written is the newest written revision.
	watch   rest.Watch
	events  []rest.Event
	written int64
	// history contains all stored revisions of definitions.
	history map[int64]*apiextensionsv1.CustomResourceDefinition
	// objects contains the objects that were created and not deleted by a client, keyed by "plural/name". The
	// value is the UID of the definition.
	objects map[string]types.UID
	// deleting contains the objects with a deletion timestamp, keyed by "plural/name".
	deleting map[string]bool
}

// modelServer is a server under test.
type modelServer struct {
	*Source
	number      int
	definitions *modelDefinitions
	delivered   int // number of events that the watch has delivered
	tasks       []*modelTask
	creations   []*modelCreation
	// revisions contains the highest revision of each entry so far. deleted contains the revisions of deletions
	// by this server. Both are keyed by plural name.
	revisions, deleted map[string]int64
}

// modelTask is a status write or finalization that the controller has started.
type modelTask struct {
	run func() bool
	// finished receives the result of a finalization that waits for a creation.
	finished chan bool
}

// modelCreation is a request that creates an object and waits in validation.
type modelCreation struct {
	key     string    // plural/name
	uid     types.UID // of the definition
	gate    *createGate
	proceed chan struct{}
	result  chan error
}

// modelDefinitions fails updates on demand.
type modelDefinitions struct {
	storage.Interface
	// failBefore makes the next update fail before the write, and failAfter makes it fail after the write.
	failBefore, failAfter bool
}

var errInjected = errors.New("injected failure")

func (d *modelDefinitions) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	if d.failBefore {
		d.failBefore = false
		return nil, errInjected
	}
	record, err := d.Interface.Update(ctx, name, update, options)
	if d.failAfter && err == nil {
		d.failAfter = false
		return nil, errInjected
	}
	return record, err
}

func newModel(t *testing.T, random *rand.Rand, servers int) *model {
	m := &model{t: t, random: random, backend: storagetest.InMemory(t), objects: map[string]types.UID{}, deleting: map[string]bool{}, history: map[int64]*apiextensionsv1.CustomResourceDefinition{}}
	m.ctx = request.NewContext(t.Context(), &request.Info{}, time.Now())
	for i := range servers {
		m.servers = append(m.servers, m.newServer(i, servers > 1))
	}
	var err error
	if m.watch, err = m.servers[0].config.Definitions.Watch(t.Context(), "", rest.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.watch.Close() })
	return m
}

// newServer returns a server that has just loaded the stored definitions.
func (m *model) newServer(number int, shared bool) *modelServer {
	config := sourceOver(m.t, m.backend, 0).config
	config.Shared = shared
	s := &modelServer{number: number, revisions: map[string]int64{}, deleted: map[string]int64{}}
	observed := storage.WithObserver(config.Definitions, &storage.Observer{
		Written: func(record *codec.Record) error {
			m.written = max(m.written, record.Revision())
			return nil
		},
		Deleted: func(_ types.NamespacedName, revision int64) { m.written = max(m.written, revision) },
	})
	s.definitions = &modelDefinitions{Interface: observed}
	config.Definitions = storage.WithObserver(s.definitions, &storage.Observer{
		Written: func(*codec.Record) error { return nil },
		Deleted: func(name types.NamespacedName, revision int64) { s.deleted[plural(name.Name)] = revision },
	})
	var err error
	if s.Source, err = New(config); err != nil {
		m.t.Fatal(err)
	}
	start := func(_ context.Context, task func() bool) { s.tasks = append(s.tasks, &modelTask{run: task}) }
	s.controller.startStatusWrite, s.controller.startFinalization = start, start
	m.relist(s)
	return s
}

// plural returns the plural name in the name of a definition.
func plural(definition string) string { return strings.TrimSuffix(definition, "."+modelGroup) }

// step applies a random operation and checks the invariants.
func (m *model) step() {
	s := m.servers[m.random.IntN(len(m.servers))]
	name := definitionNames[m.random.IntN(len(definitionNames))]
	operations := []struct {
		weight int
		name   string
		run    func()
	}{
		{6, "create definition", func() { m.createDefinition(s, name) }},
		{2, "change names", func() { m.changeNames(s, name) }},
		{1, "change labels", func() { m.changeLabels(s, name) }},
		{1, "remove Established", func() { m.removeEstablished(s, name) }},
		{2, "delete definition", func() { m.deleteDefinition(s, name) }},
		{8, "start creation", func() { m.startCreation(s, name) }},
		{6, "finish creation", func() { m.finishCreation(s) }},
		{3, "delete object", func() { m.deleteObject(s, name) }},
		{12, "deliver events", func() { m.deliver(s, 1+m.random.IntN(3)) }},
		{12, "run task", func() { m.runTask(s) }},
		{1, "lose the watch", func() { m.relist(s) }},
		{1, "fail an update", func() { s.definitions.failBefore = true }},
		{1, "lose the response of an update", func() { s.definitions.failAfter = true }},
		{1, "restart", func() { m.restart(s) }},
	}
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	selected := m.random.IntN(total)
	for _, o := range operations {
		if selected -= o.weight; selected < 0 {
			m.trace = append(m.trace, fmt.Sprintf("server %d: %s %s", s.number, o.name, name))
			o.run()
			break
		}
	}
	m.check()
}

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(m.trace, "; "))
}

// Operations of clients.

func (m *model) createDefinition(s *modelServer, name string) {
	m.uids++
	crd := widgetDefinition(modelGroup)
	kind := kinds[m.random.IntN(len(kinds))]
	if m.random.IntN(2) == 0 {
		kind = "Kind" + name
	}
	crd.Name, crd.UID, crd.Finalizers = name+"."+modelGroup, types.UID(fmt.Sprint("uid-", m.uids)), []string{definition.CleanupFinalizer}
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: name, Kind: kind, ListKind: kind + "List"}
	record, err := s.config.Definitions.Create(m.ctx, crd, storage.WriteOptions{})
	if errors.Is(err, storage.ErrExists) {
		return
	}
	if err == nil {
		err = s.Observe(record)
	}
	if err != nil {
		m.fatalf("create definition: %v", err)
	}
}

// change updates a definition as a client request does.
func (m *model) change(s *modelServer, name string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	record, err := s.config.Definitions.Update(m.ctx, types.NamespacedName{Name: name + "." + modelGroup}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		if current == nil {
			return nil, storage.WriteOptions{}, storage.ErrNotFound
		}
		obj, err := current.Object()
		if err == nil {
			change(obj.(*apiextensionsv1.CustomResourceDefinition))
		}
		return obj, storage.WriteOptions{}, err
	}, storage.UpdateOptions{})
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, errInjected) {
		return
	}
	if err == nil {
		err = s.Observe(record)
	}
	if err != nil {
		m.fatalf("change definition: %v", err)
	}
}

// changeNames changes the short name. The kind of an established definition is immutable.
func (m *model) changeNames(s *modelServer, name string) {
	short := []string{shortNames[m.random.IntN(len(shortNames))]}
	m.change(s, name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		if !slices.Equal(crd.Spec.Names.ShortNames, short) {
			crd.Spec.Names.ShortNames, crd.Generation = short, crd.Generation+1
		}
	})
}

func (m *model) changeLabels(s *modelServer, name string) {
	value := fmt.Sprint(m.random.IntN(1000))
	m.change(s, name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Labels = map[string]string{"l": value} })
}

func (m *model) removeEstablished(s *modelServer, name string) {
	m.change(s, name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		definition.RemoveCondition(crd, apiextensionsv1.Established)
	})
}

func (m *model) deleteDefinition(s *modelServer, name string) {
	m.change(s, name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		if crd.DeletionTimestamp == nil {
			now := metav1.Now()
			crd.DeletionTimestamp, crd.Generation = &now, crd.Generation+1
		}
	})
}

// find returns the entry and the resource of a definition if requests are served without waiting.
func (m *model) find(s *modelServer, name string) (*entry, *rest.Resource) {
	e := s.current.Load().find(modelGroup, name)
	resource := s.Find(schema.GroupVersion{Group: modelGroup, Version: "v1"}, name, "")
	if resource == nil {
		return nil, nil
	}
	if e.derived.released != nil {
		select {
		case <-e.derived.released:
		default:
			return nil, nil
		}
	}
	return e, resource
}

// startCreation starts a request that creates an object and waits in validation.
func (m *model) startCreation(s *modelServer, name string) {
	object := objectNames[m.random.IntN(len(objectNames))]
	withFinalizer := m.random.IntN(4) == 0
	e, resource := m.find(s, name)
	if e == nil {
		return
	}
	obj := newObject()
	obj.SetName(object)
	content(obj)["apiVersion"], content(obj)["kind"] = modelGroup+"/v1", e.requested.kind
	content(obj)["metadata"] = map[string]any{"name": object, "labels": map[string]any{"uid": string(e.uid)}}
	if withFinalizer {
		obj.SetFinalizers([]string{"example.com/wait"})
	}
	c := &modelCreation{key: name + "/" + object, uid: e.uid, gate: e.creates, proceed: make(chan struct{}), result: make(chan error, 1)}
	waits := make(chan struct{})
	go func() { // ends after finishCreation closes proceed
		_, err := resource.Storage.(rest.Creater).Create(m.ctx, obj, func(context.Context, codec.Object, codec.Object) error {
			close(waits)
			<-c.proceed
			return nil
		}, metav1.CreateOptions{})
		c.result <- err
	}()
	select {
	case <-waits:
		s.creations = append(s.creations, c)
	case err := <-c.result:
		m.created(c, err)
	}
}

func (m *model) created(c *modelCreation, err error) {
	switch {
	case err == nil:
		m.objects[c.key] = c.uid
		delete(m.deleting, c.key)
	case apierrors.IsAlreadyExists(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err), errors.Is(err, storage.ErrExists):
	default:
		m.fatalf("create %s: %v", c.key, err)
	}
}

// finishCreation finishes a random creation, and the finalizations that waited for it.
func (m *model) finishCreation(s *modelServer) {
	if len(s.creations) == 0 {
		return
	}
	i := m.random.IntN(len(s.creations))
	c := s.creations[i]
	s.creations = slices.Delete(s.creations, i, i+1)
	close(c.proceed)
	m.created(c, <-c.result)
	if !slices.ContainsFunc(s.creations, func(other *modelCreation) bool { return other.gate == c.gate }) {
		for _, task := range slices.Clone(s.tasks) {
			if task.finished != nil && !s.isBlocked() {
				m.finished(s, task, <-task.finished)
			}
		}
	}
}

// isBlocked reports whether a finalization waits for a creation.
func (s *modelServer) isBlocked() bool {
	return slices.ContainsFunc(s.creations, func(c *modelCreation) bool { return c.gate.isAwaited() })
}

// deleteObject deletes an object of a definition. In half of the cases, it also removes the finalizer of the
// object.
func (m *model) deleteObject(s *modelServer, name string) {
	object, withFinalizer := objectNames[m.random.IntN(len(objectNames))], m.random.IntN(2) == 0
	_, resource := m.find(s, name)
	if resource == nil {
		return
	}
	_, removed, err := resource.Storage.(rest.GracefulDeleter).Delete(m.ctx, types.NamespacedName{Name: object}, nil, metav1.DeleteOptions{})
	switch {
	case err == nil && removed:
		delete(m.objects, name+"/"+object)
	case err == nil:
		m.deleting[name+"/"+object] = true
		if withFinalizer {
			m.removeFinalizer(resource, name, object)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, storage.ErrNotFound) {
		m.fatalf("delete %s of %s: %v", object, name, err)
	}
}

// removeFinalizers removes the finalizers of all objects, including objects whose resource is not served.
func (m *model) removeFinalizers(s *modelServer) {
	for e := range s.current.Load().all() {
		version := newVersionResources(s.Source, e, e.storageVersion())
		version.finalizing = true
		for _, object := range objectNames {
			m.removeFinalizer(version.resources[""], e.requested.plural, object)
		}
	}
}

func (m *model) removeFinalizer(resource *rest.Resource, name, object string) {
	_, _, err := resource.Storage.(rest.Updater).Update(m.ctx, types.NamespacedName{Name: object}, func(_ context.Context, current codec.Object) (codec.Object, error) {
		changed := current.DeepCopyObject().(codec.Object)
		changed.SetFinalizers(nil)
		return changed, nil
	}, rest.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, storage.ErrNotFound) {
		m.fatalf("remove the finalizer of %s: %v", object, err)
	}
	if m.deleting[name+"/"+object] {
		delete(m.objects, name+"/"+object)
	}
}

// Operations of the network and the server.

// readEvents waits until the watch has returned the events of all writes.
func (m *model) readEvents() {
	for newest := int64(0); ; {
		if n := len(m.events); n > 0 {
			newest = m.events[n-1].Record.Revision()
		}
		if newest >= m.written {
			return
		}
		events, err := m.watch.Next(m.ctx)
		if err != nil {
			m.fatalf("watch: %v", err)
		}
		for _, event := range events {
			m.events = append(m.events, event)
			if event.Type == apiwatch.Deleted {
				continue
			}
			crd, err := codec.SharedAs[*apiextensionsv1.CustomResourceDefinition](event.Record)
			if err != nil {
				m.fatalf("decode: %v", err)
			}
			m.history[event.Record.Revision()] = crd
		}
	}
}

// deliver passes up to n events to a server.
func (m *model) deliver(s *modelServer, n int) {
	m.readEvents()
	n = min(n, len(m.events)-s.delivered)
	if n == 0 {
		return
	}
	events := m.events[s.delivered : s.delivered+n]
	s.delivered += n
	if err := s.controller.apply(m.ctx, events); err != nil {
		m.fatalf("apply: %v", err)
	}
}

// relist passes a list of all definitions to a server, instead of the events before the list.
func (m *model) relist(s *modelServer) {
	if m.watch != nil {
		m.readEvents()
	}
	list, err := s.config.Definitions.List(m.ctx, "", rest.ListOptions{})
	if err == nil {
		err = s.controller.replace(m.ctx, list)
	}
	if err == nil {
		err = s.controller.syncAll(m.ctx)
	}
	if err != nil {
		m.fatalf("list: %v", err)
	}
	s.delivered = len(m.events)
}

// runTask runs a random task of the controller. If the task is a finalization that waits for a creation, it
// ends in a later finishCreation.
func (m *model) runTask(s *modelServer) {
	if len(s.tasks) == 0 || s.isBlocked() {
		return
	}
	task := s.tasks[m.random.IntN(len(s.tasks))]
	task.finished = make(chan bool, 1)
	go func() { task.finished <- task.run() }() // ends with the task
	for !s.isBlocked() {
		select {
		case done := <-task.finished:
			m.finished(s, task, done)
			return
		default:
			runtime.Gosched()
		}
	}
}

// finished removes a task if it is done. Otherwise, the task is run again later.
func (m *model) finished(s *modelServer, task *modelTask, done bool) {
	task.finished = nil
	if done {
		s.tasks = slices.DeleteFunc(s.tasks, func(other *modelTask) bool { return other == task })
	}
}

// restart replaces a server after its requests have ended. Its tasks are lost.
func (m *model) restart(s *modelServer) {
	for len(s.creations) > 0 {
		m.finishCreation(s)
	}
	m.servers[s.number] = m.newServer(s.number, s.config.Shared)
}

// quiesce processes all events and tasks, and checks the final state.
func (m *model) quiesce() {
	m.trace = append(m.trace, "quiesce")
	for round := 0; ; round++ {
		if round == 100 {
			m.fatalf("the controllers still have work after 100 rounds")
		}
		idle := true
		for _, s := range m.servers {
			s.definitions.failBefore, s.definitions.failAfter = false, false
			for len(s.creations) > 0 {
				m.finishCreation(s)
			}
			m.readEvents()
			idle = idle && len(s.tasks) == 0 && s.delivered == len(m.events)
			m.deliver(s, len(m.events))
			for range len(s.tasks) {
				m.runTask(s)
			}
			m.removeFinalizers(s)
		}
		m.check()
		if idle {
			break
		}
	}
	m.checkQuiescent()
}

// Invariants.

// stored returns the stored definitions by plural name.
func (m *model) stored() map[string]*apiextensionsv1.CustomResourceDefinition {
	list, err := m.servers[0].config.Definitions.List(m.ctx, "", rest.ListOptions{})
	if err != nil {
		m.fatalf("list: %v", err)
	}
	stored := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for record, err := range list.Items {
		if err != nil {
			m.fatalf("list: %v", err)
		}
		obj, err := record.Object()
		if err != nil {
			m.fatalf("decode: %v", err)
		}
		crd := obj.(*apiextensionsv1.CustomResourceDefinition)
		crd.ResourceVersion = fmt.Sprint(record.Revision())
		stored[crd.Spec.Names.Plural] = crd
	}
	return stored
}

func (m *model) keys(prefix string) map[string][]byte {
	result, err := m.backend.Range(m.ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix)})
	if err != nil {
		m.fatalf("range: %v", err)
	}
	values := map[string][]byte{}
	for _, entry := range result.Entries {
		values[entry.Key] = entry.Value
	}
	return values
}

func (m *model) check() {
	m.readEvents()
	stored := m.stored()
	m.checkObjects(stored)
	for _, s := range m.servers {
		for e := range s.current.Load().all() {
			m.checkEntry(s, e, m.history[e.revision])
		}
		if len(m.servers) == 1 {
			m.checkNames(s)
		}
	}
}

// checkObjects checks invariant 1, and that no object is lost.
func (m *model) checkObjects(definitions map[string]*apiextensionsv1.CustomResourceDefinition) {
	found := map[string]bool{}
	for key, value := range m.keys("/registry/" + modelGroup + "/") {
		key = strings.TrimPrefix(key, "/registry/"+modelGroup+"/")
		name, _, _ := strings.Cut(key, "/")
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(value, &object); err != nil {
			m.fatalf("%s: %v", key, err)
		}
		if crd := definitions[name]; crd == nil || string(crd.UID) != object.Labels["uid"] {
			m.fatalf("object %s outlived its definition with UID %s", key, object.Labels["uid"])
		}
		if m.objects[key] == "" {
			m.fatalf("object %s exists without a successful creation", key)
		}
		found[key] = true
	}
	for key, uid := range maps.Clone(m.objects) {
		if found[key] {
			continue
		}
		name, _, _ := strings.Cut(key, "/")
		if crd := definitions[name]; crd != nil && crd.UID == uid && crd.DeletionTimestamp == nil {
			m.fatalf("object %s is lost", key)
		}
		delete(m.objects, key) // deleted with its definition
	}
}

// checkEntry checks invariants 3 and 4, and the phase of an entry. crd is the definition at the
// revision of the entry.
func (m *model) checkEntry(s *modelServer, e *entry, crd *apiextensionsv1.CustomResourceDefinition) {
	name := e.requested.plural
	if crd == nil {
		m.fatalf("server %d: entry %s has revision %d, at which no definition was stored", s.number, name, e.revision)
	}
	if e.revision < s.revisions[name] {
		m.fatalf("server %d: the revision of entry %s decreased from %d to %d", s.number, name, s.revisions[name], e.revision)
	}
	s.revisions[name] = e.revision
	gv := schema.GroupVersion{Group: modelGroup, Version: "v1"}
	isFound, isDiscovered := s.Find(gv, name, "") != nil, false
	if group, ok := s.Group(modelGroup); ok {
		isDiscovered = slices.ContainsFunc(group.Versions[0].Resources, func(r *rest.Resource) bool { return r.Name == name })
	}
	if want := definition.IsTrue(crd, apiextensionsv1.Established) && e.phase() != removing; isDiscovered != want {
		m.fatalf("server %d: %s is in phase %s, established %t and in discovery %t", s.number, name, e.phase(), e.stored.established, isDiscovered)
	}
	if isDiscovered && !isFound {
		m.fatalf("server %d: %s is in discovery but not found", s.number, name)
	}
	if s.deleted[name] > e.revision && isFound {
		m.fatalf("server %d: %s is found after this server has deleted it", s.number, name)
	}
	isTerminating := e.phase() == terminating || e.phase() == removing
	if isTerminating != (crd.DeletionTimestamp != nil) {
		m.fatalf("server %d: %s is in phase %s with deletion timestamp %v", s.number, name, e.phase(), crd.DeletionTimestamp)
	}
	release, isOpen := e.creates.acquire()
	if isOpen {
		release()
	}
	if isOpen == isTerminating {
		m.fatalf("server %d: the create gate of %s in phase %s is open: %t", s.number, name, e.phase(), isOpen)
	}
	if e.phase() == accepted && e.decision != nil && !e.decision.names.equal(e.requested) {
		m.fatalf("server %d: %s is accepted without all its names", s.number, name)
	}
}

// checkNames checks invariant 2.
func (m *model) checkNames(s *modelServer) {
	owners := map[reservation]string{}
	for e := range s.current.Load().all() {
		for r := range e.reservations() {
			owner := r.owner
			r.owner = ""
			if other := owners[r]; other != "" && other != owner {
				m.fatalf("name %s belongs to %s and %s", r.name, owner, other)
			}
			owners[r] = owner
		}
	}
}

// checkQuiescent checks invariant 5.
func (m *model) checkQuiescent() {
	definitions := m.stored()
	for name, crd := range definitions {
		if crd.DeletionTimestamp != nil {
			m.fatalf("%s is terminating without objects", name)
		}
		if definition.IsTrue(crd, apiextensionsv1.NamesAccepted) {
			if !definition.IsTrue(crd, apiextensionsv1.Established) || !namesOf(&crd.Status.AcceptedNames).equal(namesOf(&crd.Spec.Names)) {
				m.fatalf("%s is not established: %+v", name, crd.Status)
			}
			continue
		}
		conflict := false
		for other, crd2 := range definitions {
			conflict = conflict || other != name && (crd2.Status.AcceptedNames.Kind == crd.Spec.Names.Kind || slices.Equal(crd2.Status.AcceptedNames.ShortNames, crd.Spec.Names.ShortNames))
		}
		if !conflict {
			m.fatalf("%s has no conflict, but is not accepted: %+v", name, crd.Status)
		}
	}
	for _, s := range m.servers {
		entries := 0
		for e := range s.current.Load().all() {
			entries++
			crd := definitions[e.requested.plural]
			if crd == nil || crd.ResourceVersion != fmt.Sprint(e.revision) || e.decision != nil || e.removing {
				m.fatalf("server %d: entry %+v differs from the store: %+v", s.number, e, crd)
			}
		}
		if entries != len(definitions) {
			m.fatalf("server %d has %d entries of %d definitions", s.number, entries, len(definitions))
		}
	}
}
