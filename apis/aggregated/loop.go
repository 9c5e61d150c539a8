package aggregated

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/rest"
)

// retryDelay is how long loops wait before they do again what failed.
const retryDelay = time.Second

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Load reads all APIServices that are stored. It is called before requests are
// answered, and whenever the watch has to begin anew.
func (s *Source) Load(ctx context.Context) error {
	revision, err := s.load(ctx)
	s.loaded.Store(revision)
	return err
}

func (s *Source) load(ctx context.Context) (revision int64, err error) {
	list, err := s.config.APIServices.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list APIServices: %w", err)
	}
	there := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return 0, fmt.Errorf("list APIServices: %w", err)
		}
		name := record.Name().Name
		there[name] = true
		if err := s.put(record, true); err != nil {
			s.logger.Error("an APIService cannot be read and counts for nothing", "err", err)
		} else if service, err := serviceOf(record); err == nil {
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
	return list.Revision, nil
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

// Run follows the stored APIServices until ctx ends: it keeps those of this
// server's own, and finds out which of the others can be reached.
func (s *Source) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { s.follow(ctx) })
	loops.Go(func() { s.upkeep(ctx) })
	loops.Go(func() { newChecks(s).run(ctx) })
	loops.Wait()
	return nil
}

// upkeep keeps the APIServices of this server's own.
func (s *Source) upkeep(ctx context.Context) {
	starting := true // until all have been looked at once
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty.ready:
		}
		if err := s.keep(ctx, s.dirty.take(), starting); err == nil {
			starting = false
		} else if ctx.Err() == nil {
			s.logger.Warn("registering what this server answers for is tried again", "err", err)
			pause(ctx, retryDelay)
		}
	}
}

// follow takes in what the watch tells.
func (s *Source) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.watch(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("following APIServices begins anew", "err", err)
			pause(ctx, retryDelay)
		}
	}
}

func (s *Source) watch(ctx context.Context) error {
	revision := s.loaded.Swap(0)
	if revision == 0 {
		var err error
		if revision, err = s.load(ctx); err != nil {
			return err
		}
	}
	w, err := s.config.APIServices.Watch(ctx, "", rest.ListOptions{ResourceVersion: fmt.Sprint(revision)})
	if err != nil {
		return fmt.Errorf("watch APIServices: %w", err)
	}
	defer func() { _ = w.Close() }()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch APIServices: %w", err)
		}
		for i := range events {
			s.take(&events[i])
		}
	}
}

func (s *Source) take(event *rest.Event) {
	switch event.Type {
	case apiwatch.Bookmark:
	case apiwatch.Deleted:
		s.remove(event.Record.Name().Name, event.Record.Revision(), true)
	default:
		if err := s.put(event.Record, true); err != nil {
			s.logger.Error("an APIService cannot be read and counts for nothing", "err", err)
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
