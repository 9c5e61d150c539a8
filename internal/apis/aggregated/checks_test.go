package aggregated

import (
	"testing"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// TestContradictingServers checks that a change of the Available condition by another server triggers a check, but
// not immediately after the previous one. Two servers that cannot agree would otherwise write the condition
// without a pause.
func TestContradictingServers(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	update := func(status apiregistrationv1.ConditionStatus, revision int64) {
		t.Helper()
		record := stored("v1.fruit.example.com", "one", "", revision, Priority{100, 10})
		service, err := codec.SharedAs[*apiregistrationv1.APIService](record)
		if err != nil {
			t.Fatal(err)
		}
		service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: status}}
		if err := s.update(record, true); err != nil {
			t.Fatal(err)
		}
	}
	c := newChecks(s)
	update(apiregistrationv1.ConditionTrue, 1)
	c.syncRegistrations(t.Context())
	known := c.byGroupVersion[apples]
	for i, sinceCheck := range []time.Duration{0, time.Hour} {
		now := time.Now()
		known.started, known.due = now.Add(-sinceCheck), now.Add(time.Hour)
		update([]apiregistrationv1.ConditionStatus{apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionTrue}[i], int64(i+2))
		c.syncRegistrations(t.Context())
		if want := known.started.Add(recheckPeriod); !known.due.Equal(want) {
			t.Errorf("the next check starts %v after the last one, want %v", known.due.Sub(known.started), recheckPeriod)
		}
	}
}
