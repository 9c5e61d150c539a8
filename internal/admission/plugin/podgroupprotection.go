package plugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
)

// The finalizers that prevent the deletion of groups that have members.
const (
	podGroupProtection          = "scheduling.k8s.io/podgroup-protection"
	compositePodGroupProtection = "scheduling.k8s.io/compositepodgroup-protection"
)

// PodGroupProtection adds a finalizer to new pod groups. The finalizer prevents the deletion of a group that
// contains pods or other groups. The plugin also rejects new members of a group that is being deleted.
type PodGroupProtection struct {
	onCreate
	PodGroups Getter[*schedulingv1beta1.PodGroup]
	// CompositePodGroups is nil if the resource is disabled.
	CompositePodGroups Getter[*schedulingv1alpha3.CompositePodGroup]
}

var (
	_ admission.Mutator   = PodGroupProtection{}
	_ admission.Validator = PodGroupProtection{}
)

func podGroupProtectionPlugin() Registration {
	return Registration{
		Name: PodGroupProtection{}.Name(), Description: "adds a finalizer that prevents the deletion of pod groups with pods, and rejects new pods in terminating groups",
		OnByDefault: true, Gate: feature.GenericWorkload,
		New: func(d Dependencies) admission.Plugin {
			p := PodGroupProtection{PodGroups: cached[*schedulingv1beta1.PodGroup](d, schedulingv1beta1.SchemeGroupVersion, "podgroups")}
			if d.Gates.Enabled(feature.CompositePodGroup) {
				p.CompositePodGroups = cached[*schedulingv1alpha3.CompositePodGroup](d, schedulingv1alpha3.SchemeGroupVersion, "compositepodgroups")
			}
			return p
		},
	}
}

// Name implements admission.Plugin.
func (PodGroupProtection) Name() string { return "PodGroupProtection" }

// Mutate implements admission.Mutator.
func (p PodGroupProtection) Mutate(_ context.Context, a *admission.Attributes) error {
	if group := objectOf[schedulingv1beta1.PodGroup](a, schedulingv1beta1.GroupName, "podgroups"); group != nil {
		addFinalizer(&group.ObjectMeta, podGroupProtection)
	}
	if group := objectOf[schedulingv1alpha3.CompositePodGroup](a, schedulingv1alpha3.GroupName, "compositepodgroups"); group != nil {
		addFinalizer(&group.ObjectMeta, compositePodGroupProtection)
	}
	return nil
}

// Validate implements admission.Validator.
func (p PodGroupProtection) Validate(ctx context.Context, a *admission.Attributes) error {
	if a.Resource.Subresource != "" {
		return nil
	}
	switch obj := a.Object.(type) {
	case *corev1.Pod:
		if group := obj.Spec.SchedulingGroup; group != nil {
			return rejectTerminatingGroup(ctx, a, p.PodGroups, "Pod", "PodGroup", group.PodGroupName)
		}
	case *schedulingv1beta1.PodGroup:
		return rejectTerminatingGroup(ctx, a, p.CompositePodGroups, "PodGroup", "CompositePodGroup", obj.Spec.ParentCompositePodGroupName)
	case *schedulingv1alpha3.CompositePodGroup:
		return rejectTerminatingGroup(ctx, a, p.CompositePodGroups, "CompositePodGroup", "CompositePodGroup", obj.Spec.ParentCompositePodGroupName)
	}
	return nil
}

// rejectTerminatingGroup rejects an object that references a group which is being deleted. It accepts a missing
// group, because the group can be created later.
func rejectTerminatingGroup[T codec.Object](ctx context.Context, a *admission.Attributes, groups Getter[T], kind, groupKind string, name *string) error {
	if groups == nil || name == nil || *name == "" {
		return nil
	}
	group, err := groups.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: *name})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return reject(a, err)
	case group.GetDeletionTimestamp() != nil:
		return reject(a, fmt.Errorf("cannot create %s referencing %s %q because it is being deleted", kind, groupKind, *name))
	}
	return nil
}
