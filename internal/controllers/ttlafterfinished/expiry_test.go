package ttlafterfinished

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExpiry checks the deletion time of a Job with a TTL of 10 seconds.
func TestExpiry(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		conditions []batchv1.JobCondition
		want       time.Time // zero if the Job is not deleted
	}{
		"complete": {[]batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ended)}}, ended.Add(10 * time.Second)},
		"failed":   {[]batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ended)}}, ended.Add(10 * time.Second)},
		"running":  {[]batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(ended)}}, time.Time{}},
		"no time":  {[]batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32(10))}, Status: batchv1.JobStatus{Conditions: tt.conditions}}
			at, ok := expiry(job)
			if ok == tt.want.IsZero() || ok && !at.Equal(tt.want) {
				t.Errorf("expires at %v, %t; want %v", at, ok, tt.want)
			}
		})
	}
}
