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
	if diff := cmp.Diff(want, jobWarnings(nil, job, nil)); diff != "" {
		t.Error(diff)
	}
	large := batchv1.JobSpec{CompletionMode: new(batchv1.IndexedCompletion), Completions: new(int32(100_001)), Parallelism: new(int32(10_001))}
	const tracked = ": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, " +
		"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
	if diff := cmp.Diff([]string{"spec" + tracked}, jobWarnings(nil, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: large}, nil)); diff != "" {
		t.Error(diff)
	}
	cronJob := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	cronJob.Spec.JobTemplate.Spec = large
	if diff := cmp.Diff([]string{"spec.jobTemplate.spec" + tracked}, cronJobWarnings(nil, cronJob, nil)); diff != "" {
		t.Error(diff)
	}
	large.Parallelism = new(int32(10_000))
	if got := jobSpecWarnings("spec", &large, nil); got != nil {
		t.Errorf("warnings %q for a Job that is not too large", got)
	}
}

// TestSchedules checks schedules that the parser of the CronJob controller handles in an unusual way.
func TestSchedules(t *testing.T) {
	t.Parallel()
	for schedule, want := range map[string]string{
		"*-5 * * * *":       "", // the text after the star is ignored
		"?-5/2 *-a-b * * *": "",
		"*/0 * * * *":       "step of range should be a positive number: */0",
		"*/1/2 * * * *":     "too many slashes: */1/2",
		"1-2-3 * * * *":     "too many hyphens: 1-2-3",
		"5-1 * * * *":       "beginning of range (5) beyond end of range (1): 5-1",
	} {
		got := ""
		if err := checkCron(schedule); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", schedule, got, want)
		}
	}
}

func TestParseIndexes(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"":        "",
		"0,2-3,9": "",
		"1-2-3":   `the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'`,
		"5,3-2":   "non-increasing order, previous: 3, current: 2",
		"3-2":     "non-increasing order, previous: 3, current: 2",
		"5,5":     "non-increasing order, previous: 5, current: 5",
		"0-5,5-6": "non-increasing order, previous: 5, current: 5",
		"-1":      `cannot convert string to integer for index: ""`,
		"1-":      `cannot convert string to integer for index: ""`,
		"10":      `too large index: "10"`,
		"9-10":    `too large index: "10"`,
	} {
		got := ""
		if _, err := parseIndexes(list, 10); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
