package batch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func TestJobSelector(t *testing.T) {
	t.Parallel()
	yes := true
	for name, test := range map[string]struct {
		spec     batchv1.JobSpec
		labels   map[string]string
		selector *metav1.LabelSelector
	}{
		"generated": {
			labels: map[string]string{
				"job-name": "j", "batch.kubernetes.io/job-name": "j", "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u",
			},
			selector: &metav1.LabelSelector{MatchLabels: map[string]string{"batch.kubernetes.io/controller-uid": "u"}},
		},
		"by hand": {
			spec:     batchv1.JobSpec{ManualSelector: &yes, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: "u"}, Spec: test.spec}
		prepareJob(&builtin.Operation{Context: t.Context(), Env: &builtin.Env{}}, job)
		if diff := cmp.Diff(test.labels, job.Spec.Template.Labels); diff != "" {
			t.Errorf("%s: labels:\n%s", name, diff)
		}
		if diff := cmp.Diff(test.selector, job.Spec.Selector); diff != "" {
			t.Errorf("%s: selector:\n%s", name, diff)
		}
	}
}

func TestCronJobNames(t *testing.T) {
	t.Parallel()
	for length, want := range map[int][]string{52: nil, 53: {"must be no more than 52 characters"}} {
		if diff := cmp.Diff(want, validateCronJobName(strings.Repeat("a", length), false)); diff != "" {
			t.Errorf("name of %d characters:\n%s", length, diff)
		}
	}
	if problems := validateCronJobName(strings.Repeat("a", 60)+"-", true); problems != nil {
		t.Errorf("a long generateName is truncated, but has errors: %v", problems)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	want := []string{"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; " +
		"a DNS label is recommended: [must not contain dots]"}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a.b"}}
	if diff := cmp.Diff(want, builtin.PodNameWarnings(nil, job, nil)); diff != "" {
		t.Error(diff)
	}
}
