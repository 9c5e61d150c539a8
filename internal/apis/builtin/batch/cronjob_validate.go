package batch

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateCronJob(f validation.Field, cj, old *batchv1.CronJob) {
	f, spec := f.Child("spec"), &cj.Spec
	if spec.Schedule == "" {
		f.Child("schedule").Required("")
	} else {
		zoned := old != nil && old.Spec.Schedule == spec.Schedule // a stored schedule may contain a time zone
		validateSchedule(f.Child("schedule"), spec.Schedule, zoned)
	}
	if seconds := spec.StartingDeadlineSeconds; seconds != nil {
		f.Child("startingDeadlineSeconds").NonNegative(*seconds)
	}
	if zone := spec.TimeZone; zone != nil && (old == nil || validation.Changed(zone, old.Spec.TimeZone)) {
		validateTimeZone(f.Child("timeZone"), *zone)
	}
	if spec.ConcurrencyPolicy == "" {
		f.Child("concurrencyPolicy").Required("")
	} else {
		validation.OneOf(f.Child("concurrencyPolicy"), spec.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	}
	for _, limit := range [...]struct {
		name string
		n    *int32
	}{{"successfulJobsHistoryLimit", spec.SuccessfulJobsHistoryLimit}, {"failedJobsHistoryLimit", spec.FailedJobsHistoryLimit}} {
		if limit.n != nil {
			f.Child(limit.name).NonNegative(int64(*limit.n))
		}
	}
	validateJobTemplate(f.Child("jobTemplate").Child("spec"), &spec.JobTemplate.Spec)
}

// validateJobTemplate validates the job template of a CronJob. It rejects a selector, because each job is
// given its own selector on creation.
func validateJobTemplate(f validation.Field, spec *batchv1.JobSpec) {
	validateJobSpec(f, spec, nil)
	if spec.Selector != nil {
		f.Child("selector").Invalid(spec.Selector, "`selector` will be auto-generated")
	}
	if manual := spec.ManualSelector; manual != nil && *manual {
		validation.NotSupported(f.Child("manualSelector"), *manual, "nil", "false")
	}
}

func validateSchedule(f validation.Field, schedule string, zoned bool) {
	if strings.Contains(schedule, "TZ") {
		if !zoned {
			f.Invalid(schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
		}
		return
	}
	if err := checkCron(schedule); err != nil {
		f.Invalid(schedule, err.Error())
	}
}

func validateTimeZone(f validation.Field, zone string) {
	if zone == "" {
		f.Invalid(zone, "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || part == "" || strings.HasPrefix(part, "-") {
			f.Invalid(zone, "unknown time zone "+zone)
			return
		}
	}
	if strings.EqualFold(zone, "local") {
		f.Invalid(zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
		return
	}
	if _, err := time.LoadLocation(zone); err != nil {
		f.Invalid(zone, "unknown time zone "+zone)
	}
}

func cronJobWarnings(op *builtin.Operation, cj, old *batchv1.CronJob) []string {
	var before *batchv1.JobSpec
	if old != nil {
		before = &old.Spec.JobTemplate.Spec
	}
	return append(builtin.PodNameWarnings(op, cj, old), jobSpecWarnings("spec.jobTemplate.spec", &cj.Spec.JobTemplate.Spec, before)...)
}
