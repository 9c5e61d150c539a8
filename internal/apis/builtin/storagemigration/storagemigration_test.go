package storagemigration

import (
	"testing"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

type migration = storagemigrationv1.StorageVersionMigration

func ofDeployments() *migration {
	return &migration{Spec: storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "apps", Resource: "deployments"}}}
}

// with returns a function that sets the resource version of a migration and makes the given conditions true.
func with(version string, conditions ...storagemigrationv1.MigrationConditionType) func(*migration) {
	return func(m *migration) {
		m.Status = storagemigrationv1.StorageVersionMigrationStatus{ResourceVersion: version}
		for _, kind := range conditions {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
				Type: string(kind), Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Unix(1, 0)),
			})
		}
	}
}

func TestMigration(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[migration](validateMigration)
	rules.Create(t, ofDeployments, []validationtest.Case[migration]{
		{Name: "core group", Change: func(m *migration) { m.Spec.Resource.Group = "" }},
		{Name: "no resource", Change: func(m *migration) { m.Spec.Resource.Resource = "" }, Want: []string{"spec.resource.resource: Required value: resource is required to be set"}},
		{Name: "bad resource", Change: func(m *migration) { m.Spec.Resource.Resource = "1" }, Want: []string{"spec.resource.resource: Invalid value: \"1\": a DNS-1035 label"}},
		{Name: "bad group", Change: func(m *migration) { m.Spec.Resource.Group = "Apps" }, Want: []string{"spec.resource.group: Invalid value: \"Apps\""}},
	})
	rules.Update(t, ofDeployments, []validationtest.Case[migration]{
		{Name: "other", Change: func(m *migration) { m.Spec.Resource.Resource = "daemonsets" }, Want: []string{"field is immutable"}},
	})
}

func TestMigrationStatus(t *testing.T) {
	t.Parallel()
	const running, succeeded, failed = storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationSucceeded, storagemigrationv1.MigrationFailed
	for _, test := range []struct {
		name   string
		stored func(*migration)
		cases  []validationtest.Case[migration]
	}{
		{"new", with(""), []validationtest.Case[migration]{
			{Name: "begins", Change: with("7", running)},
			{Name: "invalid version", Change: with("x"), Want: []string{"status.resourceVersion: Invalid value: \"x\": resource version is not well formed: x"}},
			{Name: "version 0", Change: with("0"), Want: []string{"status.resourceVersion"}},
			{Name: "succeeded and failed", Change: with("7", succeeded, failed), Want: []string{"Both success and failed conditions cannot be true at the same time"}},
			{Name: "succeeded and running", Change: with("7", succeeded, running), Want: []string{"Running condition cannot be true when success condition is true"}},
			{Name: "failed and running", Change: with("7", failed, running), Want: []string{"Running condition cannot be true when failed condition is true"}},
			{Name: "duplicate condition", Change: with("7", running, running), Want: []string{"status.conditions[1]"}},
		}},
		{"running", with("7", running), []validationtest.Case[migration]{
			{Name: "ends", Change: with("7", succeeded)},
			{Name: "another version", Change: with("8", running), Want: []string{"status.resourceVersion: Invalid value: \"8\": field is immutable"}},
			{Name: "version is removed", Change: with("", running), Want: []string{"field is immutable"}},
		}},
		{"succeeded", with("7", succeeded), []validationtest.Case[migration]{
			{Name: "runs again", Change: with("7", running), Want: []string{"Success condition cannot be set to false once it is true"}},
		}},
		{"failed", with("7", failed), []validationtest.Case[migration]{
			{Name: "runs again", Change: with("7", running), Want: []string{"Failed condition cannot be set to false once it is true"}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			validationtest.Rules[migration](validateMigrationStatus).Update(t, func() *migration {
				m := ofDeployments()
				test.stored(m)
				return m
			}, test.cases)
		})
	}
}
