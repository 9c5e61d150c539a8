package aggregated

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/storage/reflector"
)

// Load reads all APIServices that are stored. It is called before requests are
// answered.
func (s *Source) Load(ctx context.Context) error { return s.follower.Load(ctx) }

// Run follows the stored APIServices until ctx ends: it keeps those of this
// server's own, and finds out which of the others can be reached.
func (s *Source) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { s.follower.Run(ctx) })
	loops.Go(func() { s.upkeep(ctx) })
	loops.Go(func() { newChecks(s).run(ctx) })
	loops.Wait()
	return nil
}

// replace takes in all APIServices there are.
func (s *Source) replace(_ context.Context, list *rest.List) error {
	there := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		there[record.Name().Name] = true
		s.take(record)
		if service, err := serviceOf(record); err == nil {
			s.settle(service)
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
	s.mu.news.Replaced(list.Revision)
	return nil
}

// apply takes in what the watch tells.
func (s *Source) apply(_ context.Context, events []rest.Event) error {
	for i := range events {
		if event := &events[i]; event.Type == apiwatch.Deleted {
			s.remove(event.Record.Name().Name, event.Record.Revision(), true)
		} else {
			s.take(event.Record)
		}
	}
	return nil
}

// take takes in an APIService that the watch tells of.
func (s *Source) take(record *codec.Record) {
	if err := s.put(record, true); err != nil {
		s.logger.Error("an APIService cannot be read and counts for nothing", "err", err)
	}
}

// settle spares upkeep from looking at an APIService that is as it should be.
func (s *Source) settle(service *apiregistrationv1.APIService) {
	gv := groupVersionOf(service.Name)
	if want := s.wanted(gv); s.asItShould(service, gv, want, true) {
		s.dirty.drop(service.Name)
	} else {
		s.dirty.add(service.Name)
	}
}

// upkeep keeps the APIServices of this server's own.
func (s *Source) upkeep(ctx context.Context) {
	starting := true // until all have been looked at once
	backoff := reflector.Backoff(reflector.MaxBackoff)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty.ready:
		}
		if err := s.keep(ctx, s.dirty.take(), starting); err == nil {
			starting = false
			backoff = reflector.Backoff(reflector.MaxBackoff)
		} else if ctx.Err() == nil {
			s.logger.Warn("registering what this server answers for is tried again", "err", err)
			_ = reflector.Sleep(ctx, &backoff) // ctx is looked at above
		}
	}
}

// serviceNameOf returns the service that an event is about; labelled tells that
// it is of an object that names its service by a label.
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
