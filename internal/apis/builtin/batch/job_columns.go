package batch

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func jobColumns() *builtin.Columns[*batchv1.Job] {
	spec, status := batchv1.JobSpec{}.SwaggerDoc(), batchv1.JobStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Status", "string", "Status of the job."),
		builtin.Column("Completions", "string", status["succeeded"]),
		builtin.Column("Duration", "string", "Time required to complete the job."),
		builtin.AgeColumn(),
	}
	definitions = append(definitions, builtin.TemplateColumns()...)
	return &builtin.Columns[*batchv1.Job]{
		Definitions: append(definitions, builtin.WideColumn("Selector", "string", spec["selector"])),
		Cells: func(job *batchv1.Job, now time.Time) []any {
			names, images := builtin.TemplateCells(&job.Spec.Template)
			return []any{
				job.Name, jobStatus(job), jobCompletions(job), jobDuration(job, now),
				builtin.Age(job.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(job.Spec.Selector),
			}
		},
	}
}

// jobStatus returns the first status that applies to a job.
func jobStatus(job *batchv1.Job) string {
	switch {
	case hasCondition(job, batchv1.JobComplete):
		return "Complete"
	case hasCondition(job, batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return "Terminating"
	case hasCondition(job, batchv1.JobSuspended):
		return "Suspended"
	case hasCondition(job, batchv1.JobFailureTarget):
		return "FailureTarget"
	case hasCondition(job, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func hasCondition(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	for i := range job.Status.Conditions {
		if job.Status.Conditions[i].Type == kind {
			return job.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

func jobCompletions(job *batchv1.Job) string {
	switch parallelism := job.Spec.Parallelism; {
	case job.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", job.Status.Succeeded, *job.Spec.Completions)
	case parallelism != nil && *parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", job.Status.Succeeded, *parallelism)
	}
	return fmt.Sprintf("%d/1", job.Status.Succeeded)
}

func jobDuration(job *batchv1.Job, now time.Time) string {
	start, end := job.Status.StartTime, job.Status.CompletionTime
	switch {
	case start == nil:
		return ""
	case end == nil:
		return duration.HumanDuration(now.Sub(start.Time))
	}
	return duration.HumanDuration(end.Sub(start.Time))
}
