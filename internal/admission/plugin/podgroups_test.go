package plugin_test

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/rest"
)

func podGroups() *rest.Resource { return resource(schedulingv1beta1.GroupName, "podgroups", "") }

func in(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "a"} }

func deleted(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "a", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}
}

func TestPodGroupProtection(t *testing.T) {
	t.Parallel()
	p := plugin.PodGroupProtection{
		PodGroups:          stored[*schedulingv1beta1.PodGroup]{{ObjectMeta: in("g")}, {ObjectMeta: deleted("gone")}},
		CompositePodGroups: stored[*schedulingv1alpha3.CompositePodGroup]{{ObjectMeta: deleted("gone")}},
	}
	group := &schedulingv1beta1.PodGroup{ObjectMeta: in("x")}
	for range 2 { // the finalizer must be added only once
		mutated(t, p, creating(podGroups(), group), "")
	}
	if !slices.Equal(group.Finalizers, []string{"scheduling.k8s.io/podgroup-protection"}) {
		t.Errorf("finalizers %v", group.Finalizers)
	}
	composite := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: in("x")}
	composites := resource(schedulingv1alpha3.GroupName, "compositepodgroups", "")
	mutated(t, p, creating(composites, composite), "")
	if len(composite.Finalizers) != 1 {
		t.Errorf("finalizers %v", composite.Finalizers)
	}
	pod := func(group string) *corev1.Pod {
		return podNamed("x", func(s *corev1.PodSpec) { s.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} })
	}
	for name, refusal := range map[string]string{
		"g": "", "missing": "", "": "",
		"gone":   `pods "x" is forbidden: cannot create Pod referencing PodGroup "gone" because it is being deleted`,
		"broken": `pods "x" is forbidden: disk trouble`,
	} {
		validated(t, p, creating(pods(), pod(name)), refusal)
	}
	group.Spec.ParentCompositePodGroupName = ptr("gone")
	validated(t, p, creating(podGroups(), group), `podgroups.scheduling.k8s.io "x" is forbidden: cannot create PodGroup referencing CompositePodGroup "gone" because it is being deleted`)
	composite.Spec.ParentCompositePodGroupName = ptr("gone")
	validated(t, p, creating(composites, composite), `compositepodgroups.scheduling.k8s.io "x" is forbidden: cannot create CompositePodGroup referencing CompositePodGroup "gone" because it is being deleted`)
	p.CompositePodGroups = nil
	validated(t, p, creating(podGroups(), group), "")
}

func TestPodGroupWorkloadExists(t *testing.T) {
	t.Parallel()
	template := schedulingv1beta1.PodGroupTemplate{Name: "t"}
	p := plugin.PodGroupWorkloadExists{Workloads: stored[*schedulingv1beta1.Workload]{
		{ObjectMeta: in("w"), Spec: schedulingv1beta1.WorkloadSpec{PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{template}}},
		{ObjectMeta: in("nested"), Spec: schedulingv1beta1.WorkloadSpec{CompositePodGroupTemplates: []schedulingv1beta1.CompositePodGroupTemplate{
			{Name: "c", PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{template}},
		}}},
		{ObjectMeta: deleted("gone")},
	}}
	of := func(workload, template string) *schedulingv1beta1.PodGroup {
		return &schedulingv1beta1.PodGroup{ObjectMeta: in("x"), Spec: schedulingv1beta1.PodGroupSpec{WorkloadRef: &schedulingv1beta1.WorkloadReference{WorkloadName: workload, TemplateName: template}}}
	}
	const refused = `podgroups.scheduling.k8s.io "x" is forbidden: PodGroup rejected: `
	validated(t, p, creating(podGroups(), &schedulingv1beta1.PodGroup{ObjectMeta: in("x")}), "")
	validated(t, p, creating(podGroups(), of("w", "t")), "")
	validated(t, p, creating(podGroups(), of("nested", "t")), "")
	validated(t, p, creating(podGroups(), of("w", "u")), refused+`PodGroupTemplate "u" not found in Workload "w"`)
	validated(t, p, creating(podGroups(), of("missing", "t")), refused+`Workload "missing" not found`)
	validated(t, p, creating(podGroups(), of("gone", "t")), refused+`Workload "gone" is being deleted`)
}

func TestJobValidation(t *testing.T) {
	t.Parallel()
	validated(t, plugin.JobValidation{}, updating(resource("batch", "jobs", ""), &batchv1.Job{}, &batchv1.Job{}), "")
}
