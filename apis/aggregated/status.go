package aggregated

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/storage"
)

// updateStatus writes the condition Available of an APIService, if it differs.
func (s *Source) updateStatus(ctx context.Context, r *registration, v availability) error {
	changed := false
	record, err := s.config.APIServices.Update(ctx, types.NamespacedName{Name: r.name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		if current == nil {
			return nil, storage.WriteOptions{}, storage.ErrNotFound
		}
		obj, err := current.Object()
		if err != nil {
			return nil, storage.WriteOptions{}, err
		}
		service, ok := obj.(*apiregistrationv1.APIService)
		if !ok || service.UID != r.uid || service.Spec.Service == nil || addressOf(&service.Spec) != r.server.address {
			return nil, storage.WriteOptions{}, errOutdated
		}
		old := availableCondition(service)
		changed = old == nil || old.Status != v.status || old.Reason != v.reason
		judged, err := s.withCondition(service, v)
		return judged, storage.WriteOptions{}, err
	}, storage.UpdateOptions{})
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, errOutdated):
		return nil // the new registration has a check of its own
	case err != nil:
		return fmt.Errorf("write the status of APIService %s: %w", r.name, err)
	}
	s.metrics.observe(r.name, v, changed)
	return s.Observe(record)
}

// errOutdated aborts the update of an APIService that is not the checked one.
var errOutdated = errors.New("the APIService is another one by now")

// withCondition returns an APIService with the condition Available set. It
// returns the same one if nothing changes.
func (s *Source) withCondition(service *apiregistrationv1.APIService, v availability) (codec.Object, error) {
	old := availableCondition(service)
	if old != nil && old.Status == v.status && old.Reason == v.reason && old.Message == v.message {
		return service, nil
	}
	live := service.DeepCopy()
	condition := apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: v.status, Reason: v.reason, Message: v.message,
		LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}
	if old == nil {
		service.Status.Conditions = append(service.Status.Conditions, condition)
	} else {
		if old.Status == v.status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		*old = condition
	}
	return s.account(live, service, "status")
}

// account calls Config.Account.
func (s *Source) account(live, service *apiregistrationv1.APIService, subresource string) (codec.Object, error) {
	if s.config.Account == nil {
		return service, nil
	}
	return s.config.Account(live, service, subresource)
}
