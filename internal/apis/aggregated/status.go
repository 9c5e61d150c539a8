package aggregated

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/simulation"
)

// updateStatus writes the Available condition of an APIService if it differs from the stored one.
func (s *Source) updateStatus(ctx context.Context, r *registration, v availability) error {
	changed := false
	_, err := s.config.Client.Subresource("status").Update(ctx, types.NamespacedName{Name: r.name}, func(service *apiregistrationv1.APIService) error {
		if service.UID != r.uid || service.Spec.Service == nil || addressOf(&service.Spec) != r.server.address {
			return errOutdated
		}
		old := availableCondition(service)
		changed = old == nil || old.Status != v.status || old.Reason != v.reason
		setCondition(service, v, simulation.Now(ctx))
		return nil
	})
	switch {
	case apierrors.IsNotFound(err), errors.Is(err, errOutdated):
		return nil // the new registration has its own check
	case err != nil:
		return fmt.Errorf("write the status of APIService %s: %w", r.name, err)
	}
	s.metrics.observe(r.name, v, changed)
	return nil
}

// errOutdated aborts the status update of an APIService that has been replaced since the check started.
var errOutdated = errors.New("the APIService was replaced")

// setCondition sets the Available condition. It keeps the transition time if the status is unchanged.
func setCondition(service *apiregistrationv1.APIService, v availability, now time.Time) {
	old := availableCondition(service)
	if old != nil && old.Status == v.status && old.Reason == v.reason && old.Message == v.message {
		return
	}
	condition := apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: v.status, Reason: v.reason, Message: v.message,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if old == nil {
		service.Status.Conditions = append(service.Status.Conditions, condition)
		return
	}
	if old.Status == v.status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	*old = condition
}
