package batch

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// maxCronJobName is the maximum length of the name of a CronJob. The names of its jobs are longer, because the
// controller appends a suffix.
const maxCronJobName = 52

func validateCronJobName(name string, prefix bool) []string {
	problems := validation.NameIsDNSSubdomain(name, prefix)
	if !prefix && len(name) > maxCronJobName {
		problems = append(problems, fmt.Sprintf("must be no more than %d characters", maxCronJobName))
	}
	return problems
}

func cronJobColumns() *builtin.Columns[*batchv1.CronJob] {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Schedule", "string", spec["schedule"]),
		builtin.Column("Timezone", "string", spec["timeZone"]),
		builtin.Column("Suspend", "boolean", spec["suspend"]),
		builtin.Column("Active", "integer", status["active"]),
		builtin.Column("Last Schedule", "string", status["lastScheduleTime"]),
		builtin.AgeColumn(),
	}
	definitions = append(definitions, builtin.TemplateColumns()...)
	return &builtin.Columns[*batchv1.CronJob]{
		Definitions: append(definitions, builtin.WideColumn("Selector", "string", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
		Cells: func(cj *batchv1.CronJob, now time.Time) []any {
			last, zone := builtin.None, builtin.None
			if cj.Status.LastScheduleTime != nil {
				last = builtin.Age(*cj.Status.LastScheduleTime, now)
			}
			if cj.Spec.TimeZone != nil {
				zone = *cj.Spec.TimeZone
			}
			template := &cj.Spec.JobTemplate.Spec
			names, images := builtin.TemplateCells(&template.Template)
			return []any{
				cj.Name, cj.Spec.Schedule, zone, suspendText(cj.Spec.Suspend), int64(len(cj.Status.Active)), last,
				builtin.Age(cj.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(template.Selector),
			}
		},
	}
}

// suspendText formats spec.suspend. The column is declared as boolean, but kube-apiserver sends a
// string.
func suspendText(suspend *bool) string {
	switch {
	case suspend == nil:
		return builtin.Unset
	case *suspend:
		return "True"
	}
	return "False"
}
