package batch

import (
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// Default values of jobs and cron jobs.
const (
	backoffLimit         = 6
	backoffLimitPerIndex = math.MaxInt32 // limit for all indexes together if each index has its own limit
	successfulHistory    = 3
	failedHistory        = 1
)

func defaultJob(job *batchv1.Job) {
	labelJob(job)
	spec := &job.Spec
	if spec.Parallelism == nil {
		builtin.SetDefault(&spec.Completions, 1) // if only parallelism is set, the job is a work queue
	}
	builtin.SetDefault(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		builtin.SetDefault(&spec.BackoffLimit, backoffLimitPerIndex)
	}
	builtin.SetDefault(&spec.BackoffLimit, backoffLimit)
	builtin.SetDefault(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	builtin.SetDefault(&spec.Suspend, false)
	builtin.SetDefault(&spec.ManualSelector, false)
	if spec.PodFailurePolicy != nil {
		builtin.SetDefault(&spec.PodReplacementPolicy, batchv1.Failed)
	}
	builtin.SetDefault(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	defaultFailurePolicy(spec.PodFailurePolicy)
	podspec.Default(&spec.Template.Spec)
}

func jobPods(job *batchv1.Job) *corev1.PodSpec { return &job.Spec.Template.Spec }

func cronJobPods(cj *batchv1.CronJob) *corev1.PodSpec { return &cj.Spec.JobTemplate.Spec.Template.Spec }

// labelJob gives the labels of the template to a job that has no labels. Job and template share the same map,
// so that the job also receives the labels that prepareJob adds to the template. Clients select jobs by these
// labels.
func labelJob(job *batchv1.Job) {
	if len(job.Labels) == 0 && len(job.Spec.Template.Labels) > 0 {
		job.Labels = job.Spec.Template.Labels
	}
}

func defaultFailurePolicy(policy *batchv1.PodFailurePolicy) {
	if policy == nil {
		return
	}
	for i := range policy.Rules {
		conditions := policy.Rules[i].OnPodConditions
		for j := range conditions {
			builtin.SetDefaultValue(&conditions[j].Status, corev1.ConditionTrue)
		}
	}
}

// defaultCronJob sets the defaults of a CronJob, including those of the pods in its job template. The other
// defaults of jobs are set when the jobs are created.
func defaultCronJob(cj *batchv1.CronJob) {
	builtin.SetDefaultValue(&cj.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	builtin.SetDefault(&cj.Spec.Suspend, false)
	builtin.SetDefault(&cj.Spec.SuccessfulJobsHistoryLimit, successfulHistory)
	builtin.SetDefault(&cj.Spec.FailedJobsHistoryLimit, failedHistory)
	defaultFailurePolicy(cj.Spec.JobTemplate.Spec.PodFailurePolicy)
	podspec.Default(&cj.Spec.JobTemplate.Spec.Template.Spec)
}
