package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// jobStatusUpdate is an update of a job's status. The server validates the update because, since KEP-4368,
// controllers other than the job controller may write the status. Most rules apply only if one of the fields
// concerned changes, so that a stored status that violates them can still be updated.
type jobStatusUpdate struct {
	f        validation.Field // path of the status
	job, old *batchv1.Job
}

func validateJobStatus(f validation.Field, job, old *batchv1.Job) {
	if old == nil {
		old = &batchv1.Job{}
	}
	u := &jobStatusUpdate{f.Child("status"), job, old}
	u.validateCounters()
	u.validateUncounted()
	u.validateConditions()
	u.validateFinished()
	u.validateTimes()
	u.validateIndexes()
}

func (u *jobStatusUpdate) validateCounters() {
	f, s, old := u.f, &u.job.Status, &u.old.Status
	f.Child("active").NonNegative(int64(s.Active))
	f.Child("succeeded").NonNegative(int64(s.Succeeded))
	f.Child("failed").NonNegative(int64(s.Failed))
	if s.Ready != nil {
		f.Child("ready").NonNegative(int64(*s.Ready))
		changed := s.Active != old.Active || validation.Changed(s.Ready, old.Ready)
		if changed && *s.Ready > s.Active {
			f.Child("ready").Invalid(*s.Ready, "cannot set more ready pods than active")
		}
	}
	if s.Terminating != nil {
		f.Child("terminating").NonNegative(int64(*s.Terminating))
	}
	if s.Failed < old.Failed {
		f.Child("failed").Invalid(s.Failed, "cannot decrease the failed counter")
	}
	if s.Succeeded < old.Succeeded && !isElastic(&u.job.Spec) {
		f.Child("succeeded").Invalid(s.Succeeded, "cannot decrease the succeeded counter")
	}
}

// isElastic reports whether a job may be scaled down (KEP-3715). Scaling down removes succeeded indexes.
func isElastic(spec *batchv1.JobSpec) bool {
	return isIndexed(spec) && !validation.Changed(spec.Completions, spec.Parallelism)
}

func (u *jobStatusUpdate) validateUncounted() {
	uncounted := u.job.Status.UncountedTerminatedPods
	if uncounted == nil {
		return
	}
	seen := map[types.UID]bool{}
	validate := func(f validation.Field, uids []types.UID) {
		for i, uid := range uids {
			switch {
			case uid == "":
				f.Index(i).Invalid(uid, "must not be empty")
			case seen[uid]:
				f.Index(i).Duplicate(uid)
			}
			seen[uid] = true
		}
	}
	f := u.f.Child("uncountedTerminatedPods")
	validate(f.Child("succeeded"), uncounted.Succeeded)
	validate(f.Child("failed"), uncounted.Failed)
}

// validateConditions validates the combination of conditions. It also requires that conditions that are true
// stay true.
func (u *jobStatusUpdate) validateConditions() {
	const (
		complete, failed     = batchv1.JobComplete, batchv1.JobFailed
		success, failureGoal = batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget
	)
	invalid := func(format string, kinds ...any) {
		u.f.Child("conditions").Invalid(field.OmitValueType{}, fmt.Sprintf(format, kinds...))
	}
	for _, pair := range [...][2]batchv1.JobConditionType{{complete, failed}, {complete, failureGoal}, {success, failed}, {success, failureGoal}} {
		if u.isChanged(pair[:]...) && u.has(pair[0]) && u.has(pair[1]) {
			invalid("cannot set %s=True and %s=true conditions", pair[0], pair[1])
		}
	}
	for _, pair := range [...][2]batchv1.JobConditionType{{failed, failureGoal}, {complete, success}} {
		if u.isChanged(pair[:]...) && u.has(pair[0]) && !u.has(pair[1]) {
			invalid("cannot set %s=True condition without the %s=true condition", pair[0], pair[1])
		}
	}
	for _, kind := range [...]batchv1.JobConditionType{failed, complete, failureGoal} {
		if hasCondition(u.old, kind) && !u.has(kind) {
			invalid("cannot disable the terminal %s=True condition", kind)
		}
	}
	if hasCondition(u.old, success) && !u.has(success) {
		invalid("cannot disable the %s=True condition", success)
	}
	if u.job.Spec.SuccessPolicy != nil && u.isChanged(complete) && u.has(complete) && !u.has(success) {
		invalid("cannot set %s=True for Job with SuccessPolicy unless %s=True", complete, success)
	}
}

func (u *jobStatusUpdate) has(kind batchv1.JobConditionType) bool { return hasCondition(u.job, kind) }

// isChanged reports whether any of the conditions changes to or from true.
func (u *jobStatusUpdate) isChanged(kinds ...batchv1.JobConditionType) bool {
	return slices.ContainsFunc(kinds, func(kind batchv1.JobConditionType) bool { return u.has(kind) != hasCondition(u.old, kind) })
}

func isFinished(job *batchv1.Job) bool {
	return hasCondition(job, batchv1.JobComplete) || hasCondition(job, batchv1.JobFailed)
}

// validateFinished requires that a finished job has a start time and no active pods.
func (u *jobStatusUpdate) validateFinished() {
	if !isFinished(u.job) {
		return
	}
	f, s, old := u.f, &u.job.Status, &u.old.Status
	finishes := !isFinished(u.old)
	if s.Active > 0 && (finishes || s.Active != old.Active) {
		f.Child("active").Invalid(s.Active, "active>0 is invalid for finished job")
	}
	if s.Terminating != nil && *s.Terminating > 0 && (finishes || validation.Changed(s.Terminating, old.Terminating)) {
		f.Child("terminating").Invalid(*s.Terminating, "terminating>0 is invalid for finished job")
	}
	uncounted := s.UncountedTerminatedPods
	if uncounted != nil && len(uncounted.Succeeded)+len(uncounted.Failed) > 0 && (finishes || validation.Changed(uncounted, old.UncountedTerminatedPods)) {
		f.Child("uncountedTerminatedPods").Invalid(uncounted, "must be empty for finished job")
	}
	completions := u.job.Spec.Completions
	neverStarts := isSuspended(&u.job.Spec) && completions != nil && *completions == 0
	if s.StartTime == nil && !neverStarts && (finishes || old.StartTime != nil) {
		f.Child("startTime").Required("startTime is required for finished job")
	}
}

func (u *jobStatusUpdate) validateTimes() {
	f, s, old := u.f, &u.job.Status, &u.old.Status
	started, ended := !s.StartTime.Equal(old.StartTime), !s.CompletionTime.Equal(old.CompletionTime)
	complete := u.has(batchv1.JobComplete)
	if ended || u.isChanged(batchv1.JobComplete) {
		if s.CompletionTime != nil && !complete {
			f.Child("completionTime").Invalid(s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		}
		if s.CompletionTime == nil && complete {
			f.Child("completionTime").Required("completionTime is required for Complete jobs")
		}
	}
	if (started || ended) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		f.Child("completionTime").Invalid(s.CompletionTime, "must be equal to or after `startTime`")
	}
	if ended && s.CompletionTime != nil && old.CompletionTime != nil {
		f.Child("completionTime").Invalid(s.CompletionTime, "field is immutable")
	}
	if started && old.StartTime != nil && !isSuspended(&u.job.Spec) {
		f.Child("startTime").Invalid(s.StartTime, "field is immutable for unsuspended job once set")
	}
}

func (u *jobStatusUpdate) validateIndexes() {
	f, spec, s := u.f, &u.job.Spec, &u.job.Status
	completed := f.Child("completedIndexes")
	failed := f.Child("failedIndexes")
	completedChanged := s.CompletedIndexes != u.old.Status.CompletedIndexes
	failedChanged := validation.Changed(s.FailedIndexes, u.old.Status.FailedIndexes)
	if completedChanged && s.CompletedIndexes != "" && !isIndexed(spec) {
		completed.Invalid(s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failedChanged && s.FailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		failed.Invalid(*s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if spec.Completions == nil {
		return
	}
	if completedChanged {
		if _, err := parseIndexes(s.CompletedIndexes, *spec.Completions); err != nil {
			completed.Invalid(s.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
		}
	}
	if s.FailedIndexes == nil || !completedChanged && !failedChanged {
		return
	}
	ranges, err := parseIndexes(*s.FailedIndexes, *spec.Completions)
	if err != nil {
		if failedChanged && spec.BackoffLimitPerIndex != nil {
			failed.Invalid(*s.FailedIndexes, "error parsing failedIndexes: "+err.Error())
		}
		return
	}
	done, err := parseIndexes(s.CompletedIndexes, *spec.Completions)
	if err != nil {
		return
	}
	if index, overlap := firstOverlap(ranges, done); overlap {
		failed.Invalid(*s.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", index))
	}
}

// indexRange is an inclusive range of pod indexes.
type indexRange struct{ first, last int }

// parseIndexes parses a list of increasing numbers and ranges, such as "0,2-3". All indexes must be below
// completions.
func parseIndexes(list string, completions int32) ([]indexRange, error) {
	if list == "" {
		return nil, nil
	}
	var ranges []indexRange
	last := -1
	for part := range strings.SplitSeq(list, ",") {
		r, err := parseRange(part, completions)
		if err != nil {
			return nil, err
		}
		if r.first <= last {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, r.first)
		}
		last = r.last
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// parseRange parses a number or a range.
func parseRange(text string, completions int32) (indexRange, error) {
	from, to, ranged := strings.Cut(text, "-")
	if strings.Contains(to, "-") {
		return indexRange{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	first, err := parseIndex(from, completions)
	if err != nil || !ranged {
		return indexRange{first, first}, err
	}
	last, err := parseIndex(to, completions)
	if err == nil && last <= first {
		err = fmt.Errorf("non-increasing order, previous: %d, current: %d", first, last)
	}
	return indexRange{first, last}, err
}

func parseIndex(text string, completions int32) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if n >= int(completions) {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return n, nil
}

// countIndexes returns the number of indexes in a list. See parseIndexes for the format of the list.
func countIndexes(list string, completions int32) (int, error) {
	ranges, err := parseIndexes(list, completions)
	total := 0
	for _, r := range ranges {
		total += r.last - r.first + 1
	}
	return total, err
}

// firstOverlap returns the first index that both lists contain. Both lists must be sorted.
func firstOverlap(a, b []indexRange) (index int, overlap bool) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if first := max(a[i].first, b[j].first); first <= min(a[i].last, b[j].last) {
			return first, true
		}
		if a[i].last < b[j].last {
			i++
		} else {
			j++
		}
	}
	return 0, false
}
