package plugin

import (
	"context"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/feature"
)

// PodGroupWorkloadExists rejects pod groups that reference a missing or terminating workload or a missing
// template.
type PodGroupWorkloadExists struct {
	onCreate
	Workloads Getter[*schedulingv1beta1.Workload]
}

var _ admission.Validator = PodGroupWorkloadExists{}

func podGroupWorkloadExistsPlugin() Registration {
	return Registration{
		Name: PodGroupWorkloadExists{}.Name(), Description: "rejects pod groups with a missing workload or template",
		OnByDefault: true, Gate: feature.GenericWorkload,
		New: func(d Dependencies) admission.Plugin {
			return PodGroupWorkloadExists{Workloads: cached[*schedulingv1beta1.Workload](d, schedulingv1beta1.SchemeGroupVersion, "workloads")}
		},
	}
}

// Name implements admission.Plugin.
func (PodGroupWorkloadExists) Name() string { return "PodGroupWorkloadExists" }

// Validate implements admission.Validator.
func (p PodGroupWorkloadExists) Validate(ctx context.Context, a *admission.Attributes) error {
	group := objectOf[schedulingv1beta1.PodGroup](a, schedulingv1beta1.GroupName, "podgroups")
	if group == nil || group.Spec.WorkloadRef == nil {
		return nil
	}
	of := group.Spec.WorkloadRef
	workload, err := p.Workloads.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: of.WorkloadName})
	switch {
	case apierrors.IsNotFound(err):
		return reject(a, fmt.Errorf("PodGroup rejected: Workload %q not found", of.WorkloadName))
	case err != nil:
		return apierrors.NewInternalError(err)
	case workload.DeletionTimestamp != nil:
		return reject(a, fmt.Errorf("PodGroup rejected: Workload %q is being deleted", of.WorkloadName))
	case !hasTemplate(workload.Spec.PodGroupTemplates, workload.Spec.CompositePodGroupTemplates, of.TemplateName):
		return reject(a, fmt.Errorf("PodGroup rejected: PodGroupTemplate %q not found in Workload %q", of.TemplateName, of.WorkloadName))
	}
	return nil
}

// hasTemplate reports whether a template with the name is in templates, or in composite at any depth.
func hasTemplate(templates []schedulingv1beta1.PodGroupTemplate, composite []schedulingv1beta1.CompositePodGroupTemplate, name string) bool {
	for i := range templates {
		if templates[i].Name == name {
			return true
		}
	}
	for i := range composite {
		if hasTemplate(composite[i].PodGroupTemplates, composite[i].CompositePodGroupTemplates, name) {
			return true
		}
	}
	return false
}
