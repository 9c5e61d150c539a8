package resource

import (
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/simulation"
)

// Fields that field selectors can use.
const (
	nodeName = "spec.nodeName"
	driver   = "spec.driver"
)

func sliceFields(slice *resourcev1.ResourceSlice) fields.Set {
	return fields.Set{nodeName: text(slice.Spec.NodeName), driver: slice.Spec.Driver}
}

// sliceFieldLabel returns a function that accepts the fields of field selectors. It rejects metadata.namespace,
// because slices are cluster-scoped.
func sliceFieldLabel(gv schema.GroupVersion) func(label, value string) (string, string, error) {
	return func(label, value string) (string, string, error) {
		switch label {
		case "metadata.name", nodeName, driver:
			return label, value, nil
		}
		return "", "", fmt.Errorf("field label not supported for %s: %s", gv.WithKind("ResourceSlice"), label)
	}
}

// countSliceUpdate increments the generation before the fields of disabled features are dropped. Therefore, as
// in kube-apiserver, an update that changes only such fields increments the generation.
func countSliceUpdate(_ *builtin.Operation, slice, old *resourcev1.ResourceSlice) {
	if validation.Changed(slice.Spec, old.Spec) {
		slice.Generation = old.Generation + 1
	}
}

// sliceWarnings warns about driver names with upper-case letters, because driver names are case-sensitive.
func sliceWarnings(_ *builtin.Operation, slice, _ *resourcev1.ResourceSlice) []string {
	driver := slice.Spec.Driver
	if driver == strings.ToLower(driver) {
		return nil
	}
	return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)}
}

func sliceColumns() *builtin.Columns[*resourcev1.ResourceSlice] {
	spec := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return &builtin.Columns[*resourcev1.ResourceSlice]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Node", "string", spec["nodeName"]),
			builtin.Column("Driver", "string", spec["driver"]),
			builtin.Column("Pool", "string", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
			builtin.AgeColumn(),
		},
		Cells: func(slice *resourcev1.ResourceSlice, now time.Time) []any {
			return []any{
				slice.Name, text(slice.Spec.NodeName), slice.Spec.Driver, slice.Spec.Pool.Name,
				builtin.Age(slice.CreationTimestamp, now),
			}
		},
	}
}

func deviceClassColumns() *builtin.Columns[*resourcev1.DeviceClass] {
	return &builtin.Columns[*resourcev1.DeviceClass]{
		Definitions: []metav1.TableColumnDefinition{builtin.NameColumn(), builtin.AgeColumn()},
		Cells: func(class *resourcev1.DeviceClass, now time.Time) []any {
			return []any{class.Name, builtin.Age(class.CreationTimestamp, now)}
		},
	}
}

// prepareTaintRuleUpdate sets the time of the taint to the current time if the effect changes and the client
// did not change the time. Tolerations with a duration start at this time.
func prepareTaintRuleUpdate(op *builtin.Operation, rule, old *resourcev1.DeviceTaintRule) {
	taint, was := &rule.Spec.Taint, &old.Spec.Taint
	if taint.Effect != was.Effect && taint.TimeAdded.Equal(was.TimeAdded) {
		taint.TimeAdded = &metav1.Time{Time: simulation.Now(op.Context).Truncate(time.Second)}
	}
}

func taintRuleColumns() *builtin.Columns[*resourcev1.DeviceTaintRule] {
	taint := resourcev1.DeviceTaint{}.SwaggerDoc()
	return &builtin.Columns[*resourcev1.DeviceTaintRule]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Key", "string", taint["key"]),
			builtin.Column("Value", "string", taint["value"]),
			builtin.Column("Effect", "string", taint["effect"]),
			builtin.Column("TimeAdded", "string", taint["timeAdded"]),
			builtin.AgeColumn(),
		},
		Cells: func(rule *resourcev1.DeviceTaintRule, now time.Time) []any {
			taint, added := &rule.Spec.Taint, ""
			if taint.TimeAdded != nil {
				added = builtin.Age(*taint.TimeAdded, now)
			}
			return []any{rule.Name, taint.Key, taint.Value, string(taint.Effect), added, builtin.Age(rule.CreationTimestamp, now)}
		},
	}
}
