package aggregated

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/storage"
)

// managedLabel is on the APIServices that are kept by servers themselves:
// onStart those of what is built in, which may be changed while a server runs;
// always those of custom resources, which may not.
const (
	managedLabel = "kube-aggregator.kubernetes.io/automanaged"
	onStart      = "onstart"
	always       = "true"
)

// keepers is how many APIServices are written at a time, so that they share
// their syncs.
const keepers = 32

// Register makes the APIServices of what is built in, where they are not as they
// should be when a server starts. It is called once, after Load and before Run,
// which sees to all others.
func (s *Source) Register(ctx context.Context) error {
	var own []string
	for _, name := range s.dirty.take() {
		if s.own[groupVersionOf(name)] {
			own = append(own, name)
		} else {
			s.dirty.add(name)
		}
	}
	return s.keep(ctx, own, true)
}

// keep sees to APIServices of this server's own: it creates what is missing,
// removes what is not served any more, and leaves alone what somebody else has
// registered. What cannot be written is tried again later. starting puts right
// what is only looked at when a server starts.
func (s *Source) keep(ctx context.Context, names []string, starting bool) error {
	var group errgroup.Group
	group.SetLimit(keepers)
	for _, name := range names {
		group.Go(func() error {
			err := s.keepOne(ctx, name, starting)
			if err == nil {
				return nil
			}
			s.dirty.add(name)
			return fmt.Errorf("keep APIService %s: %w", name, err)
		})
	}
	return group.Wait()
}

// wanted returns the label of the APIService of a group version, empty where
// there should be none.
func (s *Source) wanted(gv schema.GroupVersion) string {
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

func (s *Source) keepOne(ctx context.Context, name string, starting bool) error {
	gv := groupVersionOf(name)
	want := s.wanted(gv)
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
	if s.asItShould(service, gv, want, starting) {
		return nil
	}
	record, err = s.config.APIServices.Update(ctx, types.NamespacedName{Name: name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		return s.corrected(current, gv, want, starting)
	}, storage.UpdateOptions{})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil // the watch tells, if it is missed
	case err != nil:
		return err
	case want == "":
		return nil
	}
	return s.Observe(record)
}

// asItShould tells that there is nothing to do about an APIService.
func (s *Source) asItShould(service *apiregistrationv1.APIService, gv schema.GroupVersion, want string, starting bool) bool {
	managed := service.Labels[managedLabel]
	switch {
	case managed != onStart && managed != always:
		return true // somebody's own
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

func (s *Source) corrected(current *codec.Record, gv schema.GroupVersion, want string, starting bool) (codec.Object, storage.WriteOptions, error) {
	if current == nil {
		return nil, storage.WriteOptions{}, storage.ErrNotFound
	}
	obj, err := current.Object()
	if err != nil {
		return nil, storage.WriteOptions{}, err
	}
	service, ok := obj.(*apiregistrationv1.APIService)
	if !ok {
		return nil, storage.WriteOptions{}, fmt.Errorf("it is a %T", obj)
	}
	switch {
	case s.asItShould(service, gv, want, starting):
		return service, storage.WriteOptions{}, nil
	case want == "":
		return nil, storage.WriteOptions{}, storage.Remove{}
	}
	live := service.DeepCopy()
	service.Spec = s.specOf(gv)
	setLocal(service)
	accounted, err := s.account(live, service, "")
	return accounted, storage.WriteOptions{}, err
}

// setLocal says what is always true of what this server answers for.
func setLocal(service *apiregistrationv1.APIService) {
	if isAvailable(service) && available(service).Reason == "Local" {
		return
	}
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "Local", Message: "Local APIServices are always available",
	}}
}

func (s *Source) specOf(gv schema.GroupVersion) apiregistrationv1.APIServiceSpec {
	priority := s.usual(gv)
	return apiregistrationv1.APIServiceSpec{
		Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority.Group, VersionPriority: priority.Version,
	}
}

func (s *Source) create(ctx context.Context, gv schema.GroupVersion, label string) error {
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(gv), Labels: map[string]string{managedLabel: label}},
		Spec:       s.specOf(gv),
	}
	accounted, err := s.account(&apiregistrationv1.APIService{}, service, "")
	if err != nil {
		return err
	}
	_, err = s.config.Creater.Create(ctx, accounted, nil, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // another server's, or somebody's: the watch tells
	}
	return err
}
