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

// managedLabel is the label of autoregistered APIServices. The value onStart marks built-in group versions,
// whose APIServices are corrected only when a server starts. The value always marks group versions of custom
// resources, whose APIServices are corrected after every change.
const (
	managedLabel = "kube-aggregator.kubernetes.io/automanaged"
	onStart      = "onstart"
	always       = "true"
)

// maxWrites is the maximum number of APIServices that are written concurrently. Concurrent writes share fsyncs.
const maxWrites = 32

// Register creates or corrects the APIServices of the built-in group versions, and blocks until they are
// stored. It must be called once, after Load and before Run, which registers the other group versions. If a
// write fails, Register returns the error, and Run retries the write.
func (s *Source) Register(ctx context.Context) error {
	var own []string
	for _, name := range s.dirty.drain() {
		if s.own[groupVersionOf(name)] {
			own = append(own, name)
		} else {
			s.dirty.add(name)
		}
	}
	var group errgroup.Group
	group.SetLimit(maxWrites)
	for _, name := range own {
		group.Go(func() error {
			err := s.sync(ctx, name, true)
			if err != nil {
				s.dirty.add(name)
			}
			return err
		})
	}
	return group.Wait()
}

// desiredLabel returns the value of managedLabel for a group version, or an empty string if the
// group version must not be registered.
func (s *Source) desiredLabel(gv schema.GroupVersion) string {
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

// sync creates the APIService with the given name if it is missing, corrects it if it differs from the
// autoregistered one, and deletes it if its group version is no longer served. It ignores APIServices without
// managedLabel. An APIService with the label value onStart is corrected or deleted only if starting is set.
func (s *Source) sync(ctx context.Context, name string, starting bool) error {
	if err := s.syncOnce(ctx, name, starting); err != nil {
		return fmt.Errorf("sync APIService %s: %w", name, err)
	}
	return nil
}

func (s *Source) syncOnce(ctx context.Context, name string, starting bool) error {
	gv := groupVersionOf(name)
	want := s.desiredLabel(gv)
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

// unregister deletes an APIService. It fails if the APIService has changed since it was read; the
// caller then syncs it again.
func (s *Source) unregister(ctx context.Context, service *apiregistrationv1.APIService) error {
	unchanged := metav1.Preconditions{UID: &service.UID, ResourceVersion: &service.ResourceVersion}
	err := s.config.Client.Delete(ctx, types.NamespacedName{Name: service.Name}, metav1.DeleteOptions{Preconditions: &unchanged})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// correct resets the spec of an APIService that differs from the autoregistered one, and marks a local
// APIService as available.
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
		return nil // the deletion event adds it to the dirty set if it must exist
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
	current := &service.Spec
	return current.Service == nil && current.Group == spec.Group && current.Version == spec.Version &&
		!current.InsecureSkipTLSVerify && len(current.CABundle) == 0 &&
		current.GroupPriorityMinimum == spec.GroupPriorityMinimum && current.VersionPriority == spec.VersionPriority
}

// setLocal sets the Available condition of a local APIService, which is one without a Service.
func setLocal(service *apiregistrationv1.APIService, now time.Time) {
	if isAvailable(service) && availableCondition(service).Reason == "Local" {
		return
	}
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Reason: "Local", Message: "Local APIServices are always available",
	}}
}

// specOf returns the spec of the autoregistered APIService of a group version.
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
		return nil // another server or a user has created it; its event follows
	}
	return err
}
