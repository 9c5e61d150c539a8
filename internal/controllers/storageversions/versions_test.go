package storageversions

import (
	"testing"
	"time"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSetCommonVersion checks that the transition time of the condition changes if the servers start to agree
// on a version, stop agreeing, or agree on a different version.
func TestSetCommonVersion(t *testing.T) {
	t.Parallel()
	v := &internalv1alpha1.StorageVersion{}
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for n, step := range []struct {
		encodings  []string
		status     internalv1alpha1.ConditionStatus
		common     string
		transition bool
	}{
		{[]string{"v1"}, internalv1alpha1.ConditionTrue, "v1", true},
		{[]string{"v1", "v1"}, internalv1alpha1.ConditionTrue, "v1", false},
		{[]string{"v1", "v2"}, internalv1alpha1.ConditionFalse, "", true},
		{[]string{"v2", "v1"}, internalv1alpha1.ConditionFalse, "", false},
		{[]string{"v2"}, internalv1alpha1.ConditionTrue, "v2", true},
		{[]string{"v3"}, internalv1alpha1.ConditionTrue, "v3", true},
		{nil, internalv1alpha1.ConditionFalse, "", true},
	} {
		v.Status.StorageVersions = nil
		for _, encoding := range step.encodings {
			v.Status.StorageVersions = append(v.Status.StorageVersions, internalv1alpha1.ServerStorageVersion{EncodingVersion: encoding})
		}
		now := metav1.NewTime(first.Add(time.Duration(n) * time.Hour))
		setCommonVersion(v, now)
		common := ""
		if v.Status.CommonEncodingVersion != nil {
			common = *v.Status.CommonEncodingVersion
		}
		got := v.Status.Conditions[0]
		if len(v.Status.Conditions) != 1 || got.Status != step.status || common != step.common || got.LastTransitionTime.Equal(&now) != step.transition {
			t.Errorf("%d: %q %+v, want %+v", n, common, v.Status.Conditions, step)
		}
	}
}
