package aggregated

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Load reads all stored APIServices. It must be called before requests are
// served.
func (s *Source) Load(ctx context.Context) error { return s.reflector.Load(ctx) }

// Run follows the stored APIServices until ctx ends: it autoregisters this server's group versions
// and checks the availability of all others.
func (s *Source) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { s.reflector.Run(ctx) })
	loops.Go(func() { s.autoregister(ctx) })
	loops.Go(func() { newChecks(s).run(ctx) })
	loops.Wait()
	return nil
}

// replace replaces the registrations by a list of all APIServices.
func (s *Source) replace(_ context.Context, list *rest.List) error {
	there := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		there[record.Name().Name] = true
		s.updateFromWatch(record)
		if service, err := serviceOf(record); err == nil {
			s.updateDirty(service)
		}
		record.Forget()
	}
	now := s.current.Load()
	for _, r := range now.remotes {
		if !there[r.name] {
			s.remove(r.name, list.Revision, true)
		}
	}
	for gv := range now.priorities {
		if name := nameOf(gv); !there[name] {
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

// updateFromWatch is update for a record of the list or the watch.
func (s *Source) updateFromWatch(record *codec.Record) {
	if err := s.update(record, true); err != nil {
		s.logger.Error("an APIService could not be decoded and is ignored", "err", err)
	}
}

// updateDirty removes an APIService from the dirty set if it is up to date, and
// adds it if not.
func (s *Source) updateDirty(service *apiregistrationv1.APIService) {
	gv := groupVersionOf(service.Name)
	if want := s.wantedLabel(gv); s.isUpToDate(service, gv, want, true) {
		s.dirty.remove(service.Name)
	} else {
		s.dirty.add(service.Name)
	}
}

// autoregister syncs the dirty set until ctx ends, with backoff on errors.
func (s *Source) autoregister(ctx context.Context) {
	starting := true // until all have been synced once
	backoff := reflector.Backoff(reflector.MaxBackoff)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty.ready:
		}
		if err := s.syncAll(ctx, s.dirty.drain(), starting); err == nil {
			starting = false
			backoff = reflector.Backoff(reflector.MaxBackoff)
		} else if ctx.Err() == nil {
			s.logger.Warn("retrying to register the server's own API groups", "err", err)
			_ = reflector.Sleep(ctx, &backoff) // ctx is looked at above
		}
	}
}

// serviceNameOf returns the service that an event concerns. labelled means that
// the object names its service in a label, as EndpointSlices do.
func serviceNameOf(event *rest.Event, labelled bool) (namespace, name string, ok bool) {
	at := event.Record.Name()
	if !labelled {
		return at.Namespace, at.Name, true
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
	return at.Namespace, name, name != ""
}
