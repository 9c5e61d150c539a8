package scheduling

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

// faults runs rules with additional feature gates and returns the errors.
func faults[T any](t *testing.T, rules func(validation.Field, *T, *T), obj, old *T, on string) []string {
	t.Helper()
	gates, err := feature.Defaults().Parse(on)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, fault := range validation.NewValidator(gates).Validate(context.Background(), func(f validation.Field) { rules(f, obj, old) }) {
		texts = append(texts, fault.Error())
	}
	return texts
}

func groupTemplate(name string) schedulingv1beta1.PodGroupTemplate {
	return schedulingv1beta1.PodGroupTemplate{
		Name: name, SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}},
	}
}

func workload() *schedulingv1beta1.Workload {
	return &schedulingv1beta1.Workload{Spec: schedulingv1beta1.WorkloadSpec{
		PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{groupTemplate("a"), groupTemplate("b")},
	}}
}

func composite(name string, groups []schedulingv1beta1.PodGroupTemplate, composites ...schedulingv1beta1.CompositePodGroupTemplate) schedulingv1beta1.CompositePodGroupTemplate {
	return schedulingv1beta1.CompositePodGroupTemplate{
		Name: name, PodGroupTemplates: groups, CompositePodGroupTemplates: composites,
		SchedulingPolicy: schedulingv1beta1.CompositePodGroupSchedulingPolicy{Basic: &schedulingv1beta1.CompositeBasicSchedulingPolicy{}},
	}
}

func tree(composites ...schedulingv1beta1.CompositePodGroupTemplate) *schedulingv1beta1.Workload {
	return &schedulingv1beta1.Workload{Spec: schedulingv1beta1.WorkloadSpec{CompositePodGroupTemplates: composites}}
}

func groups(names ...string) (list []schedulingv1beta1.PodGroupTemplate) {
	for _, name := range names {
		list = append(list, groupTemplate(name))
	}
	return list
}

func TestValidateWorkload(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*schedulingv1beta1.Workload)
		want   []string
	}{
		"valid": {func(*schedulingv1beta1.Workload) {}, nil},
		"no templates": {
			func(w *schedulingv1beta1.Workload) { w.Spec.PodGroupTemplates = nil },
			[]string{"spec: Invalid value: \"\": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"},
		},
		"a duplicate name": {
			func(w *schedulingv1beta1.Workload) { w.Spec.PodGroupTemplates = groups("a", "a") },
			[]string{`spec.podGroupTemplates[1]: Duplicate value: {"name":"a","schedulingPolicy":{"gang":{"minCount":2}},"schedulingConstraints":null}`},
		},
		"a class": {
			func(w *schedulingv1beta1.Workload) { w.Spec.PodGroupTemplates[1].PriorityClassName = "high" },
			[]string{"spec: Invalid value: null: detected multiple priority configurations"},
		},
		"a priority": {
			func(w *schedulingv1beta1.Workload) { w.Spec.PodGroupTemplates[0].Priority = new(int32(0)) },
			[]string{"spec: Invalid value: null: detected multiple priority configurations"},
		},
		"a disabled gate": {
			func(w *schedulingv1beta1.Workload) {
				w.Spec.CompositePodGroupTemplates = tree(composite("c", groups("d"))).Spec.CompositePodGroupTemplates
			},
			[]string{"spec.compositePodGroupTemplates: Forbidden", "spec: Invalid value: \"{podGroupTemplates, compositePodGroupTemplates}\": must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`"},
		},
	} {
		w := workload()
		test.change(w)
		got := faults(t, validateWorkload, w, nil, "")
		if diff := cmp.Diff(test.want, got, cmpSorted()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestValidateWorkloadTree(t *testing.T) {
	t.Parallel()
	const at = "spec.compositePodGroupTemplates[0]"
	high := groups("a", "b")
	high[1].PriorityClassName = "high"
	for name, test := range map[string]struct {
		workload *schedulingv1beta1.Workload
		want     []string
	}{
		"four levels": {tree(composite("1", nil, composite("2", nil, composite("3", groups("4"))))), nil},
		"five levels": {
			tree(composite("1", groups("x"), composite("2", nil, composite("3", nil, composite("4", groups("5")))))),
			[]string{at + ": Invalid value: [{\"name\":\"2\"…: maximum template hierarchy depth is 4"},
		},
		"names": {
			tree(composite("a", groups("b", "c"), composite("b", groups("a")))),
			[]string{at + `.compositePodGroupTemplates[0].name: Duplicate value: "b"`, at + `.compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: "a"`},
		},
		"no children": {
			tree(composite("a", nil, composite("b", nil))),
			[]string{at + `.compositePodGroupTemplates[0]: Invalid value: "b": must have at least one child PodGroupTemplate or CompositePodGroupTemplate`},
		},
		"priorities": {
			tree(composite("c", high)),
			[]string{"spec: Invalid value: null: all priority and priorityClassName values must be identical, detected multiple values"},
		},
	} {
		got := faults(t, validateWorkload, test.workload, nil, "CompositePodGroup=true")
		if diff := cmp.Diff(test.want, shorten(got), cmpSorted()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestUpdateWorkload(t *testing.T) {
	t.Parallel()
	immutable := "Invalid value: null: field is immutable"
	for name, test := range map[string]struct {
		change func(*schedulingv1beta1.Workload)
		want   []string
	}{
		"nothing": {func(*schedulingv1beta1.Workload) {}, nil},
		"a count": {func(w *schedulingv1beta1.Workload) { w.Spec.PodGroupTemplates[0].SchedulingPolicy.Gang.MinCount = 3 }, nil},
		"controllerRef": {
			func(w *schedulingv1beta1.Workload) {
				w.Spec.ControllerRef = &schedulingv1beta1.TypedLocalObjectReference{Kind: "Job", Name: "j"}
			},
			[]string{"spec.controllerRef: " + immutable},
		},
		"priority": {
			func(w *schedulingv1beta1.Workload) {
				for i := range w.Spec.PodGroupTemplates {
					w.Spec.PodGroupTemplates[i].PriorityClassName = "high"
				}
			},
			[]string{"spec.podGroupTemplates[0].priorityClassName: " + immutable, "spec.podGroupTemplates[1].priorityClassName: " + immutable},
		},
	} {
		w := workload()
		test.change(w)
		if diff := cmp.Diff(test.want, faults(t, validateWorkload, w, workload(), ""), cmpSorted()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestPodGroupStatus(t *testing.T) {
	t.Parallel()
	old := &schedulingv1beta1.PodGroup{Spec: schedulingv1beta1.PodGroupSpec{
		SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}},
		DisruptionMode:   &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}},
		ResourceClaims:   []schedulingv1beta1.PodGroupResourceClaim{{Name: "c", ResourceClaimName: new("claim")}},
	}}
	group := old.DeepCopy()
	group.Status.ResourceClaimStatuses = []schedulingv1beta1.PodGroupResourceClaimStatus{{Name: "c"}, {Name: "d"}}
	group.Status.Conditions = []metav1.Condition{{Type: "Bad type", Status: "True", Reason: "R"}}
	want := []string{
		"status.conditions[0].lastTransitionTime: Required value",
		"status.conditions[0].type: Invalid value: \"Bad type\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
		"status.resourceClaimStatuses[1].name: Invalid value: \"d\": must match the name of an entry in `spec.resourceClaims`",
	}
	if diff := cmp.Diff(want, faults(t, validatePodGroupStatus, group, old, ""), cmpSorted()); diff != "" {
		t.Error(diff)
	}
	if got := faults(t, validatePodGroup, old, nil, ""); got != nil {
		t.Errorf("a pod group: %q", got)
	}
}

func TestCompositePodGroup(t *testing.T) {
	t.Parallel()
	group := &schedulingv1alpha3.CompositePodGroup{Spec: schedulingv1alpha3.CompositePodGroupSpec{
		DisruptionMode:   &schedulingv1alpha3.CompositeDisruptionMode{Single: &schedulingv1alpha3.SingleCompositeDisruptionMode{}},
		WorkloadRef:      &schedulingv1alpha3.WorkloadReference{WorkloadName: "w", TemplateName: "t"},
		SchedulingPolicy: schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Basic: &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}},
	}}
	if got := faults(t, validateCompositePodGroup, group, nil, "CompositePodGroup=true"); got != nil {
		t.Errorf("a composite pod group: %q", got)
	}
	changed := group.DeepCopy()
	changed.Spec.WorkloadRef.TemplateName = "other"
	want := []string{"spec.workloadRef: Invalid value: null: field is immutable"}
	if diff := cmp.Diff(want, faults(t, validateCompositePodGroup, changed, group, "CompositePodGroup=true")); diff != "" {
		t.Error(diff)
	}
	changed = group.DeepCopy()
	changed.Status.Conditions = []metav1.Condition{{Status: "True", Reason: "R", LastTransitionTime: metav1.Unix(1, 0)}}
	want = []string{"status.conditions[0].type: Required value: is required"}
	if diff := cmp.Diff(want, faults(t, validateCompositePodGroupStatus, changed, group, "")); diff != "" {
		t.Error(diff)
	}
}

// cmpSorted ignores the order of strings in lists.
func cmpSorted() cmp.Option {
	return cmp.Transformer("sorted", func(texts []string) map[string]int {
		counts := map[string]int{}
		for _, text := range texts {
			counts[text]++
		}
		return counts
	})
}

// shorten truncates a long list in each error.
func shorten(texts []string) []string {
	for i, text := range texts {
		if start := strings.Index(text, `{"name":"2"`); start >= 0 {
			texts[i] = text[:start+len(`{"name":"2"`)] + "…" + text[strings.LastIndex(text, ": "):]
		}
	}
	return texts
}
