package aggregated

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Load reads all stored APIServices. It must be called before requests are served, and not while the Reflector
// runs. It returns an error if the read fails.
func (s *Source) Load(ctx context.Context) error { return s.reflector.Load(ctx) }

// Reflector returns the reflector of the stored APIServices, which the caller must run.
func (s *Source) Reflector() *reflector.Reflector { return s.reflector }

// Run autoregisters the group versions of this server, and checks the availability of the other registered
// group versions, until ctx ends. It returns nil after its goroutines have ended.
func (s *Source) Run(ctx context.Context) error {
	queue := work.New(ctx, work.Config[autoregistration]{
		Name: "autoregistration", Workers: maxWrites, Logger: s.logger,
		Sync: func(ctx context.Context, key autoregistration) error { return s.sync(ctx, key.name, key.starting) },
	})
	defer queue.Close()
	s.dirty.start(queue.Add)
	newChecks(s).run(ctx)
	return nil
}

// replace replaces all registrations with those in a list of all APIServices.
func (s *Source) replace(_ context.Context, list *rest.List) error {
	listed := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		listed[record.Name().Name] = true
		s.updateFromWatch(record)
		if service, err := serviceOf(record); err == nil {
			s.updateDirty(service)
		}
		record.DropDecoded()
	}
	now := s.current.Load()
	for _, r := range now.remotes {
		if !listed[r.name] {
			s.remove(r.name, list.Revision, true)
		}
	}
	for gv := range now.priorities {
		if name := nameOf(gv); !listed[name] {
			s.remove(name, list.Revision, true)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.versions.Replaced(list.Revision)
	return nil
}

// apply applies watch events.
func (s *Source) apply(_ context.Context, events []rest.Event) error {
	for i := range events {
		if event := &events[i]; event.Type == apiwatch.Deleted {
			s.remove(event.Record.Name().Name, event.Record.Revision(), true)
		} else {
			s.updateFromWatch(event.Record)
		}
	}
	return nil
}

// updateFromWatch applies a record from a list or a watch event. If the record cannot be decoded, it logs an
// error.
func (s *Source) updateFromWatch(record *codec.Record) {
	if err := s.update(record, true); err != nil {
		s.logger.Error("an APIService could not be decoded and is ignored", "err", err)
	}
}

// updateDirty removes an APIService from the dirty set if it is up to date, and adds it otherwise.
func (s *Source) updateDirty(service *apiregistrationv1.APIService) {
	gv := groupVersionOf(service.Name)
	if want := s.desiredLabel(gv); s.isUpToDate(service, gv, want, true) {
		s.dirty.remove(service.Name)
	} else {
		s.dirty.add(service.Name)
	}
}

// serviceNameOf returns the name of the Service to which an object belongs. If labelled is set, the name is
// the value of a label, as for EndpointSlices; otherwise it equals the name of the object. ok is false if the
// object belongs to no Service.
func serviceNameOf(event *rest.Event, labelled bool) (namespace, name string, ok bool) {
	object := event.Record.Name()
	if !labelled {
		return object.Namespace, object.Name, true
	}
	obj, err := event.Record.Shared()
	if err != nil {
		return "", "", false
	}
	meta, ok := obj.(metav1.Object)
	if !ok {
		return "", "", false
	}
	name = meta.GetLabels()["kubernetes.io/service-name"]
	return object.Namespace, name, name != ""
}
