package batch

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

const orphanWarning = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

// Unprefixed pod labels. They have been superseded by prefixed labels, but are still set for older clients.
const (
	legacyJobNameLabel       = "job-name"
	legacyControllerUIDLabel = "controller-uid"
)

// successfulField is the only selectable field of jobs.
const successfulField = "status.successful"

func jobFields(job *batchv1.Job) fields.Set {
	return fields.Set{successfulField: strconv.Itoa(int(job.Status.Succeeded))}
}

func jobFieldLabel(label, value string) (string, string, error) {
	switch label {
	case "metadata.name", "metadata.namespace", successfulField:
		return label, value, nil
	}
	return "", "", fmt.Errorf("field label %q not supported for Job", label)
}

// prepareJob labels the pods of a job with its name and UID, and makes the job select its pods by this UID. It
// does nothing if the job has a manual selector. It does not overwrite labels that the client has set;
// validation rejects wrong values.
func prepareJob(op *builtin.Operation, job *batchv1.Job) {
	podspec.DropDisabledFields(op.Env.Gates, jobPods(job), nil)
	if job.Spec.ManualSelector != nil && *job.Spec.ManualSelector {
		return
	}
	labels := &job.Spec.Template.Labels
	setMissing(labels, legacyJobNameLabel, job.Name)
	setMissing(labels, batchv1.JobNameLabel, job.Name)
	setMissing(labels, legacyControllerUIDLabel, string(job.UID))
	setMissing(labels, batchv1.ControllerUidLabel, string(job.UID))
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	setMissing(&job.Spec.Selector.MatchLabels, batchv1.ControllerUidLabel, string(job.UID))
	labelJob(job)
}

func setMissing(set *map[string]string, key, value string) {
	if *set == nil {
		*set = make(map[string]string)
	}
	if _, ok := (*set)[key]; !ok {
		(*set)[key] = value
	}
}

// jobScheduling visits the field that specifies how all pods of a job are scheduled.
func jobScheduling(u *builtin.FieldVisitor, job *batchv1.Job) {
	builtin.VisitField(u, &job.Spec.Scheduling)
}
