package aggregated

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

// managedLabel is a label of autoregistered APIServices: onStart for those of built-in group
// versions, which are corrected only when a server starts; always for those of custom resources,
// which are corrected after every change.
const (
	managedLabel = "kube-aggregator.kubernetes.io/automanaged"
	onStart      = "onstart"
	always       = "true"
)

// writers is how many APIServices are written concurrently, so that they share
// fsyncs.
const writers = 32

// Register creates or corrects the APIServices of the built-in group versions. It
// is called once, after Load and before Run, which registers the others.
func (s *Source) Register(ctx context.Context) error {
	var own []string
	for _, name := range s.dirty.drain() {
		if s.own[groupVersionOf(name)] {
			own = append(own, name)
		} else {
			s.dirty.add(name)
		}
	}
	return s.syncAll(ctx, own, true)
}

// syncAll syncs autoregistered APIServices: it creates missing ones, deletes those whose group
// version is no longer served, and ignores APIServices without managedLabel. Names whose write
// failed are added to the dirty set again. starting also corrects those with the label onStart.
func (s *Source) syncAll(ctx context.Context, names []string, starting bool) error {
	var group errgroup.Group
	group.SetLimit(writers)
	for _, name := range names {
		group.Go(func() error {
			err := s.sync(ctx, name, starting)
			if err == nil {
				return nil
			}
			s.dirty.add(name)
			return fmt.Errorf("keep APIService %s: %w", name, err)
		})
	}
	return group.Wait()
}

// wantedLabel returns the value of managedLabel for a group version, empty if it
// is not to be registered.
func (s *Source) wantedLabel(gv schema.GroupVersion) string {
	switch {
	case gv.Group == apiregistrationv1.GroupName:
		return ""
	case s.own[gv]:
		return onStart
	case s.config.Served(gv):
		return always
	}
	return ""
}

func (s *Source) sync(ctx context.Context, name string, starting bool) error {
	gv := groupVersionOf(name)
	want := s.wantedLabel(gv)
	record, err := s.config.APIServices.Get(ctx, types.NamespacedName{Name: name}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		if want == "" {
			return nil
		}
		return s.create(ctx, gv, want)
	}
	if err != nil {
		return err
	}
	service, err := serviceOf(record)
	if err != nil {
		return err
	}
	switch {
	case s.isUpToDate(service, gv, want, starting):
		return nil
	case want == "":
		return s.unregister(ctx, service)
	}
	return s.correct(ctx, service.Name, gv, want, starting)
}

// unregister deletes an APIService as it was seen. One that has changed since is
// looked at again.
func (s *Source) unregister(ctx context.Context, service *apiregistrationv1.APIService) error {
	seen := metav1.Preconditions{UID: &service.UID, ResourceVersion: &service.ResourceVersion}
	err := s.config.Client.Delete(ctx, types.NamespacedName{Name: service.Name}, metav1.DeleteOptions{Preconditions: &seen})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// correct updates an APIService that differs from the autoregistered one.
func (s *Source) correct(ctx context.Context, name string, gv schema.GroupVersion, want string, starting bool) error {
	at := types.NamespacedName{Name: name}
	service, err := s.config.Client.Update(ctx, at, func(service *apiregistrationv1.APIService) error {
		if !s.isUpToDate(service, gv, want, starting) {
			service.Spec = s.specOf(gv)
		}
		return nil
	})
	if err == nil && service.Spec.Service == nil && !isAvailable(service) {
		_, err = s.config.Client.Subresource("status").Update(ctx, at, func(service *apiregistrationv1.APIService) error {
			setLocal(service, simulation.Now(ctx))
			return nil
		})
	}
	if apierrors.IsNotFound(err) {
		return nil // if it should exist, the watch event marks it dirty
	}
	return err
}

// isUpToDate reports whether an APIService needs no update by autoregistration.
func (s *Source) isUpToDate(service *apiregistrationv1.APIService, gv schema.GroupVersion, want string, starting bool) bool {
	managed := service.Labels[managedLabel]
	switch {
	case managed != onStart && managed != always:
		return true // not autoregistered
	case managed == onStart && !starting:
		return true
	case want == "":
		return false
	}
	spec := s.specOf(gv)
	is := &service.Spec
	return is.Service == nil && is.Group == spec.Group && is.Version == spec.Version && !is.InsecureSkipTLSVerify && len(is.CABundle) == 0 &&
		is.GroupPriorityMinimum == spec.GroupPriorityMinimum && is.VersionPriority == spec.VersionPriority
}

// setLocal sets the condition Available of an APIService without a service.
func setLocal(service *apiregistrationv1.APIService, now time.Time) {
	if isAvailable(service) && availableCondition(service).Reason == "Local" {
		return
	}
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Reason: "Local", Message: "Local APIServices are always available",
	}}
}

func (s *Source) specOf(gv schema.GroupVersion) apiregistrationv1.APIServiceSpec {
	priority := s.defaultPriority(gv)
	return apiregistrationv1.APIServiceSpec{
		Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority.Group, VersionPriority: priority.Version,
	}
}

func (s *Source) create(ctx context.Context, gv schema.GroupVersion, label string) error {
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(gv), Labels: map[string]string{managedLabel: label}},
		Spec:       s.specOf(gv),
	}
	_, err := s.config.Client.Create(ctx, service)
	if apierrors.IsAlreadyExists(err) {
		return nil // by another server or a user: the watch delivers it
	}
	return err
}
