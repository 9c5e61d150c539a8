// Package batch declares the resources of the batch group.
package batch

import (
	batchv1 "k8s.io/api/batch/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version batch/v1.
func V1() builtin.Group {
	all := []string{"all"}
	return builtin.Group{GroupVersion: batchv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*batchv1.CronJob]{
			Names: builtin.Names{Plural: "cronjobs", Kind: "CronJob", ShortNames: []string{"cj"}, Categories: all}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true, ValidateName: validateCronJobName},
			Strategy: builtin.Strategy[*batchv1.CronJob]{
				Default:          defaultCronJob,
				PrepareForCreate: podspec.PrepareForCreate(cronJobPods), PrepareForUpdate: podspec.PrepareForUpdate(cronJobPods),
				Validate: validateCronJob, Warnings: cronJobWarnings,
			},
			Status:  &builtin.Status[*batchv1.CronJob]{},
			Columns: cronJobColumns(),
		}),
		builtin.Resource(builtin.Row[*batchv1.Job]{
			Names: builtin.Names{Plural: "jobs", Kind: "Job", Categories: all}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy: builtin.Strategy[*batchv1.Job]{
				Default:          defaultJob,
				GatedFields:      []builtin.GatedFields[*batchv1.Job]{{Gate: feature.WorkloadWithJob, Visit: jobScheduling}},
				PrepareForCreate: prepareJob, PrepareForUpdate: podspec.PrepareForUpdate(jobPods),
				Validate: validateJob, Warnings: jobWarnings,
			},
			Status:         &builtin.Status[*batchv1.Job]{Validate: validateJobStatus},
			Deletion:       builtin.Deletion[*batchv1.Job]{OrphanByDefault: true, OrphanWarning: orphanWarning},
			FieldSelectors: builtin.FieldSelectors[*batchv1.Job]{Keys: []string{successfulField}, ConvertLabel: jobFieldLabel, Values: jobFields},
			Columns:        jobColumns(),
		}),
	}}
}
