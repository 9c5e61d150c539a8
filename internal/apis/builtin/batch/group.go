// Package batch declares the resources of the batch group.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is batch/v1.
func V1() builtin.Group {
	all := []string{"all"}
	return builtin.Group{GroupVersion: batchv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[batchv1.CronJob]{
			Name: "cronjobs", Kind: "CronJob", Namespaced: true, ShortNames: []string{"cj"}, Categories: all,
			Status: true, Generation: true, ValidateName: validateCronJobName,
			Default: defaultCronJob, Prepare: podspec.Prepare(cronJobPods), PrepareUpdate: podspec.PrepareUpdate(cronJobPods),
			Warnings: cronJobWarnings,
			Validate: validateCronJob,
			Columns:  cronJobColumns(),
		}),
		builtin.Resource(builtin.Row[batchv1.Job]{
			Name: "jobs", Kind: "Job", Namespaced: true, Categories: all,
			Status: true, Generation: true, OrphanByDefault: true, OrphanWarning: orphanWarning,
			Default: defaultJob, Prepare: prepareJob, PrepareUpdate: podspec.PrepareUpdate(jobPods), Warnings: jobWarnings,
			Gated:            []builtin.Gated[batchv1.Job]{{Gate: feature.WorkloadWithJob, Fields: jobScheduling}},
			SelectableFields: []string{successfulField}, Fields: jobFields, FieldLabel: jobFieldLabel,
			Validate: validateJob, ValidateStatus: validateJobStatus, Columns: jobColumns(),
		}),
	}}
}
