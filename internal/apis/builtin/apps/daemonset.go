package apps

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// startTemplateGeneration sets the annotation that contains the template generation. This happens when an
// object is decoded, so that the client that creates the object becomes the field manager of the annotation,
// as in kube-apiserver.
func startTemplateGeneration(ds *appsv1.DaemonSet) {
	if _, ok := ds.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok {
		setTemplateGeneration(ds, 0)
	}
}

// prepareDaemonSet sets the first template generation. The generation is stored in an annotation that clients
// can set only on creation.
func prepareDaemonSet(op *builtin.Operation, ds *appsv1.DaemonSet) {
	podspec.DropDisabledFields(op.Env.Gates, &ds.Spec.Template.Spec, nil)
	setTemplateGeneration(ds, max(templateGeneration(ds), 1))
}

func prepareDaemonSetUpdate(op *builtin.Operation, ds, old *appsv1.DaemonSet) {
	podspec.DropDisabledFields(op.Env.Gates, &ds.Spec.Template.Spec, &old.Spec.Template.Spec)
	generation := templateGeneration(old)
	if validation.Changed(ds.Spec.Template, old.Spec.Template) {
		generation++
	}
	setTemplateGeneration(ds, generation)
}

// prepareDaemonSetStatus preserves the template generation. This is necessary because a write to /status can
// change annotations.
func prepareDaemonSetStatus(_ *builtin.Operation, ds, old *appsv1.DaemonSet) {
	setTemplateGeneration(ds, templateGeneration(old))
}

func templateGeneration(ds *appsv1.DaemonSet) int64 {
	generation, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

func setTemplateGeneration(ds *appsv1.DaemonSet, generation int64) {
	if ds.Annotations == nil {
		ds.Annotations = make(map[string]string, 1)
	}
	ds.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(generation, 10)
}

func daemonSetColumns() *builtin.Columns[*appsv1.DaemonSet] {
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	definitions := []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Desired", "integer", status["desiredNumberScheduled"]),
		builtin.Column("Current", "integer", status["currentNumberScheduled"]),
		builtin.Column("Ready", "integer", status["numberReady"]),
		builtin.Column("Up-to-date", "integer", status["updatedNumberScheduled"]),
		builtin.Column("Available", "integer", status["numberAvailable"]),
		builtin.Column("Node Selector", "string", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		builtin.AgeColumn(),
	}
	definitions = append(definitions, builtin.TemplateColumns()...)
	return &builtin.Columns[*appsv1.DaemonSet]{
		Definitions: append(definitions, builtin.WideColumn("Selector", "string", spec["selector"])),
		Cells: func(ds *appsv1.DaemonSet, now time.Time) []any {
			names, images := builtin.TemplateCells(&ds.Spec.Template)
			s := &ds.Status
			return []any{
				ds.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
				int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable),
				labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector),
				builtin.Age(ds.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(ds.Spec.Selector),
			}
		},
	}
}
