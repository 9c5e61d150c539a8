package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Limits for jobs.
const (
	maxManagedBy = 63
	// Limits of Indexed jobs. Jobs with a backoff limit per index have lower limits, because they store more
	// state per index.
	maxParallelIndexes    = 100_000
	maxFailingIndexes     = 100_000
	maxFailingCompletions = 100_000
	maxFewCompletions     = 10_000
	maxParallelFailing    = 10_000
)

func validateJob(f validation.Field, job, old *batchv1.Job) {
	if old == nil {
		validateJobPodNames(f.Child("metadata").Child("name"), job)
	}
	validateGeneratedSelector(f.Child("spec"), job)
	f, spec := f.Child("spec"), &job.Spec
	validateJobSpec(f, spec, old)
	if spec.Selector == nil {
		f.Child("selector").Required("")
	} else {
		f.Child("selector").LabelSelector(spec.Selector)
	}
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		podspec.ValidateTemplateLabels(f.Child("template"), selector, &spec.Template)
	}
	if old != nil {
		validateJobUpdate(f, spec, old)
	}
}

// validateJobPodNames validates the names of the pods of an Indexed job. A pod name consists of the name of
// the job and an index.
func validateJobPodNames(f validation.Field, job *batchv1.Job) {
	if !isIndexed(&job.Spec) || job.Spec.Completions == nil || *job.Spec.Completions <= 0 {
		return
	}
	name := fmt.Sprintf("%s-%d", job.Name, *job.Spec.Completions-1)
	if problems := apivalidation.IsDNS1123Label(name); len(problems) > 0 {
		f.Invalid(job.Name, "will not able to create pod with invalid DNS label: "+name)
	}
}

// validateGeneratedSelector validates a generated selector and requires that the template has the matching
// labels.
func validateGeneratedSelector(f validation.Field, job *batchv1.Job) {
	if manual := job.Spec.ManualSelector; manual != nil && *manual || job.Spec.Selector == nil {
		return
	}
	labels := f.Child("template").Child("metadata").Child("labels")
	for _, label := range [...]struct{ key, value string }{
		{legacyControllerUIDLabel, string(job.UID)}, {batchv1.ControllerUidLabel, string(job.UID)},
		{legacyJobNameLabel, job.Name}, {batchv1.JobNameLabel, job.Name},
	} {
		switch value, found := job.Spec.Template.Labels[label.key]; {
		case !found:
			labels.Key(label.key).Required("must be '" + label.value + "'")
		case value != label.value:
			labels.Key(label.key).Invalid(job.Spec.Template.Labels, "must be '"+label.value+"'")
		}
	}
	selector := job.Spec.Selector
	uid := string(job.UID)
	generated := len(selector.MatchLabels) == 1 && (selector.MatchLabels[batchv1.ControllerUidLabel] == uid || selector.MatchLabels[legacyControllerUIDLabel] == uid)
	if len(selector.MatchLabels) > 0 && !generated { // every job has a selector, which is immutable
		f.Child("selector").Invalid(selector, "`selector` not auto-generated")
	}
}

func isIndexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

// validateJobSpec validates the spec of a job or of the job template of a CronJob. old is nil on creation and
// for templates.
func validateJobSpec(f validation.Field, spec *batchv1.JobSpec, old *batchv1.Job) {
	for _, count := range [...]struct {
		name string
		n    *int32
	}{
		{"parallelism", spec.Parallelism}, {"completions", spec.Completions}, {"backoffLimit", spec.BackoffLimit},
		{"ttlSecondsAfterFinished", spec.TTLSecondsAfterFinished}, {"backoffLimitPerIndex", spec.BackoffLimitPerIndex},
		{"maxFailedIndexes", spec.MaxFailedIndexes},
	} {
		if count.n != nil {
			f.Child(count.name).NonNegative(int64(*count.n))
		}
	}
	if seconds := spec.ActiveDeadlineSeconds; seconds != nil {
		f.Child("activeDeadlineSeconds").NonNegative(*seconds)
	}
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		f.Child("backoffLimitPerIndex").Required("when maxFailedIndexes is specified")
	}
	if by := spec.ManagedBy; by != nil {
		at := f.Child("managedBy")
		at.Add(apivalidation.IsDomainPrefixedPath(at.Path(), *by)...)
		if len(*by) > maxManagedBy {
			at.TooLong(maxManagedBy)
		}
	}
	if mode := spec.CompletionMode; mode != nil {
		validation.OneOf(f.Child("completionMode"), *mode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	validateIndexes(f, spec)
	validateFailurePolicy(f.Child("podFailurePolicy"), spec)
	validateSuccessPolicy(f.Child("successPolicy"), spec)
	validateReplacement(f.Child("podReplacementPolicy"), spec)
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Spec.Template
	}
	podspec.ValidateTemplate(f.Child("template"), &spec.Template, before)
	validateJobRestart(f.Child("template").Child("spec").Child("restartPolicy"), spec)
}

func validateJobRestart(f validation.Field, spec *batchv1.JobSpec) {
	switch policy := spec.Template.Spec.RestartPolicy; {
	case policy == "" || policy == corev1.RestartPolicyAlways:
		f.Required(`valid values: "OnFailure", "Never"`)
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		validation.NotSupported(f, policy, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	case policy != corev1.RestartPolicyNever && spec.PodFailurePolicy != nil:
		f.Invalid(policy, `only "Never" is supported when podFailurePolicy is specified`)
	}
}

// validateIndexes validates the fields that concern individual indexes. It rejects them in jobs that are not
// Indexed.
func validateIndexes(f validation.Field, spec *batchv1.JobSpec) {
	if !isIndexed(spec) {
		const reason = "requires indexed completion mode"
		known := spec.CompletionMode == nil || *spec.CompletionMode == batchv1.NonIndexedCompletion
		if known && spec.BackoffLimitPerIndex != nil {
			f.Child("backoffLimitPerIndex").Invalid(*spec.BackoffLimitPerIndex, reason)
		}
		if known && spec.MaxFailedIndexes != nil {
			f.Child("maxFailedIndexes").Invalid(*spec.MaxFailedIndexes, reason)
		}
		if spec.SuccessPolicy != nil {
			f.Child("successPolicy").Invalid(spec.SuccessPolicy, reason)
		}
		return
	}
	if spec.Completions == nil {
		f.Child("completions").Required("when completion mode is Indexed")
	}
	if n := spec.Parallelism; n != nil && *n > maxParallelIndexes {
		f.Child("parallelism").Invalid(*n, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", maxParallelIndexes))
	}
	failed := spec.MaxFailedIndexes
	if failed != nil && spec.Completions != nil && *failed > *spec.Completions {
		f.Child("maxFailedIndexes").Invalid(*failed, "must be less than or equal to completions")
	}
	if failed != nil && *failed > maxFailingIndexes {
		f.Child("maxFailedIndexes").Invalid(*failed, fmt.Sprintf("must be less than or equal to %d", maxFailingIndexes))
	}
	if spec.Completions == nil || *spec.Completions <= maxFailingCompletions || spec.BackoffLimitPerIndex == nil {
		return
	}
	if failed == nil {
		f.Child("maxFailedIndexes").Required(fmt.Sprintf("must be specified when completions is above %d", maxFailingCompletions))
	} else if *failed > maxFewCompletions {
		f.Child("maxFailedIndexes").Invalid(*failed, fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", maxFewCompletions, maxFailingCompletions))
	}
	if n := spec.Parallelism; n != nil && *n > maxParallelFailing {
		f.Child("parallelism").Invalid(*n, fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit per index", maxParallelFailing, maxFailingCompletions))
	}
}

func validateReplacement(f validation.Field, spec *batchv1.JobSpec) {
	policy := spec.PodReplacementPolicy
	if policy == nil {
		return
	}
	if spec.PodFailurePolicy != nil {
		validation.OneOf(f, *policy, batchv1.Failed)
		return
	}
	validation.OneOf(f, *policy, batchv1.Failed, batchv1.TerminatingOrFailed)
}

// validateJobUpdate rejects changes of fields that determine the pods of a job. The exceptions are the number
// of pods and, while no pods run, scheduling directives and resources.
func validateJobUpdate(f validation.Field, spec *batchv1.JobSpec, oldJob *batchv1.Job) {
	old, mutable := &oldJob.Spec, hasMutableTemplate(oldJob)
	validateCompletionsUpdate(f.Child("completions"), spec, old)
	validation.Immutable(f.Child("selector"), spec.Selector, old.Selector)
	if !mutable {
		validation.Immutable(f.Child("template"), spec.Template, old.Template)
	} else if validation.Changed(withoutPlacement(spec, old), &old.Template.Spec) {
		f.Child("template").Child("spec").Invalid(spec.Template.Spec, "field is immutable")
	}
	validation.Immutable(f.Child("completionMode"), spec.CompletionMode, old.CompletionMode)
	validation.Immutable(f.Child("podFailurePolicy"), spec.PodFailurePolicy, old.PodFailurePolicy)
	validation.Immutable(f.Child("backoffLimitPerIndex"), spec.BackoffLimitPerIndex, old.BackoffLimitPerIndex)
	validation.Immutable(f.Child("managedBy"), spec.ManagedBy, old.ManagedBy)
	validation.Immutable(f.Child("successPolicy"), spec.SuccessPolicy, old.SuccessPolicy)
}

func isSuspended(spec *batchv1.JobSpec) bool { return spec.Suspend != nil && *spec.Suspend }

// hasMutableTemplate reports whether a job is suspended and has no pods, either because it has never been
// started or because the job controller has stopped it (KEP-2926, KEP-5440).
func hasMutableTemplate(job *batchv1.Job) bool {
	return isSuspended(&job.Spec) && (job.Status.StartTime == nil || hasCondition(job, batchv1.JobSuspended))
}

// withoutPlacement returns the pod spec of spec, but with the old values of those fields that a suspended job
// may change.
func withoutPlacement(spec, old *batchv1.JobSpec) *corev1.PodSpec {
	pods, before := spec.Template.Spec, &old.Template.Spec // pods is a copy
	pods.NodeSelector, pods.Tolerations, pods.SchedulingGates = before.NodeSelector, before.Tolerations, before.SchedulingGates
	affinity := corev1.Affinity{}
	if pods.Affinity != nil {
		affinity = *pods.Affinity
	}
	affinity.NodeAffinity = nil
	if before.Affinity != nil {
		affinity.NodeAffinity = before.Affinity.NodeAffinity
	}
	if pods.Affinity = &affinity; affinity == (corev1.Affinity{}) && before.Affinity == nil {
		pods.Affinity = nil
	}
	pods.Containers, pods.InitContainers = withResources(pods.Containers, before.Containers), withResources(pods.InitContainers, before.InitContainers)
	return &pods
}

func withResources(containers, old []corev1.Container) []corev1.Container {
	if len(containers) != len(old) {
		return containers
	}
	containers = slices.Clone(containers)
	for i := range containers {
		containers[i].Resources = old[i].Resources
	}
	return containers
}

// validateCompletionsUpdate rejects changes of completions, unless an Indexed job changes parallelism to the
// same value.
func validateCompletionsUpdate(f validation.Field, spec, old *batchv1.JobSpec) {
	if !isIndexed(spec) || spec.Completions == nil || old.Completions == nil {
		validation.Immutable(f, spec.Completions, old.Completions)
		return
	}
	if *spec.Completions == *old.Completions {
		return
	}
	if spec.Parallelism == nil || *spec.Parallelism != *spec.Completions {
		f.Invalid(*spec.Completions, "can only be modified in tandem with spec.parallelism")
	}
}

func jobWarnings(op *builtin.Operation, job, old *batchv1.Job) []string {
	var before *batchv1.JobSpec
	if old != nil {
		before = &old.Spec
	}
	return append(builtin.PodNameWarnings(op, job, old), jobSpecWarnings("spec", &job.Spec, before)...)
}

// A Job with more completions and parallel pods than these numbers may exceed the size limit of its status.
const (
	manyCompletions  = 100_000
	manyParallelPods = 10_000
)

// jobSpecWarnings returns the warnings for the specification of a Job at a path. old may be nil.
func jobSpecWarnings(path string, spec, old *batchv1.JobSpec) []string {
	var warnings []string
	isIndexed := spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
	if isIndexed && ptr.Deref(spec.Completions, 0) > manyCompletions && ptr.Deref(spec.Parallelism, 0) > manyParallelPods {
		warnings = append(warnings, path+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Template
	}
	return append(warnings, podspec.TemplateWarnings(path+".template.spec", &spec.Template, before)...)
}
