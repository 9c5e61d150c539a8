package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateStatefulSet(f validation.Field, set, old *appsv1.StatefulSet) {
	f, spec := f.Child("spec"), &set.Spec
	var before *corev1.PodTemplateSpec
	if old == nil {
		validateStatefulSetOnce(f, spec)
	} else {
		before = &old.Spec.Template
		validateStatefulSetUpdate(f, spec, &old.Spec)
	}
	validatePodManagement(f.Child("podManagementPolicy"), spec.PodManagementPolicy)
	validateStatefulSetStrategy(f.Child("updateStrategy"), &spec.UpdateStrategy)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		for _, one := range [...]struct {
			name  string
			value appsv1.PersistentVolumeClaimRetentionPolicyType
		}{{"whenDeleted", policy.WhenDeleted}, {"whenScaled", policy.WhenScaled}} {
			validation.OneOf(f.Child("persistentVolumeClaimRetentionPolicy").Child(one.name), one.value,
				appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
		}
	}
	validateCount(f.Child("replicas"), spec.Replicas)
	f.Child("minReadySeconds").NonNegative(int64(spec.MinReadySeconds))
	if spec.Ordinals != nil {
		f.Child("ordinals").Child("start").NonNegative(int64(spec.Ordinals.Start))
	}
	validateStatefulSetPods(f, spec, before)
}

// validateStatefulSetOnce validates immutable fields. It is called only on creation.
func validateStatefulSetOnce(f validation.Field, spec *appsv1.StatefulSetSpec) {
	if spec.ServiceName != "" {
		f.Child("serviceName").DNSLabel(spec.ServiceName)
	}
	for i := range spec.VolumeClaimTemplates {
		podspec.ValidateClaimSpec(f.Child("volumeClaimTemplates").Index(i).Child("spec"), &spec.VolumeClaimTemplates[i].Spec, nil)
	}
}

func validatePodManagement(f validation.Field, policy appsv1.PodManagementPolicyType) {
	switch policy {
	case "":
		f.Required("")
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		f.Invalid(policy, "must be 'OrderedReady' or 'Parallel'")
	}
}

func validateStatefulSetUpdate(f validation.Field, spec, old *appsv1.StatefulSetSpec) {
	same := *spec // a copy in which the mutable fields are replaced before the comparison
	same.Replicas, same.Ordinals, same.Template, same.UpdateStrategy = old.Replicas, old.Ordinals, old.Template, old.UpdateStrategy
	same.MinReadySeconds, same.RevisionHistoryLimit = old.MinReadySeconds, old.RevisionHistoryLimit
	same.PersistentVolumeClaimRetentionPolicy = old.PersistentVolumeClaimRetentionPolicy
	if validation.Changed(&same, old) {
		f.Forbidden("updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', " +
			"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")
	}
}

// withClaims returns the pod template as used for pods. It starts with one volume for each volume claim
// template, followed by the template's volumes. A volume for a claim replaces a volume with the same name.
func withClaims(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	if len(spec.VolumeClaimTemplates) == 0 {
		return &spec.Template
	}
	template := spec.Template
	claims := validation.NewDuplicates[string](len(spec.VolumeClaimTemplates))
	template.Spec.Volumes = make([]corev1.Volume, 0, len(spec.VolumeClaimTemplates)+len(spec.Template.Spec.Volumes))
	for i := range spec.VolumeClaimTemplates {
		name := spec.VolumeClaimTemplates[i].Name
		if claims.IsDuplicate(name) {
			continue
		}
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	for i := range spec.Template.Spec.Volumes {
		if volume := &spec.Template.Spec.Volumes[i]; !claims.Has(volume.Name) {
			template.Spec.Volumes = append(template.Spec.Volumes, *volume)
		}
	}
	return &template
}

func validateStatefulSetPods(f validation.Field, spec *appsv1.StatefulSetSpec, old *corev1.PodTemplateSpec) {
	at := f.Child("selector")
	if spec.Selector == nil {
		at.Required("")
	} else {
		at.LabelSelector(spec.Selector)
		if isEmpty(spec.Selector) {
			at.Invalid(spec.Selector, "empty selector is invalid for statefulset")
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		at.Invalid(spec.Selector, "")
	} else {
		podspec.ValidateTemplateLabels(f.Child("template"), selector, &spec.Template)
		podspec.ValidateTemplate(f.Child("template"), withClaims(spec), old)
	}
	podspec.ValidateRestartAlways(f.Child("template"), &spec.Template, "StatefulSet")
}

func validateStatefulSetStrategy(f validation.Field, strategy *appsv1.StatefulSetUpdateStrategy) {
	at, rolling := f.Child("rollingUpdate"), strategy.RollingUpdate
	switch strategy.Type {
	case "":
		f.Required("")
	case appsv1.OnDeleteStatefulSetStrategyType:
		if rolling != nil {
			at.Invalid(rolling, "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if rolling == nil {
			return
		}
		validateCount(at.Child("partition"), rolling.Partition)
		if n := rolling.MaxUnavailable; n != nil {
			at.Child("maxUnavailable").NumberOrPercent(*n)
			if isZero(n) {
				at.Child("maxUnavailable").Invalid(*n, "cannot be 0")
			}
			at.Child("maxUnavailable").AtMost100Percent(*n)
		}
	default:
		f.Invalid(strategy, "must be 'RollingUpdate' or 'OnDelete'")
	}
}

func validateStatefulSetStatus(f validation.Field, set, old *appsv1.StatefulSet) {
	f, s := f.Child("status"), &set.Status
	validateCounters(f, counter{"replicas", int64(s.Replicas)}, counter{"readyReplicas", int64(s.ReadyReplicas)},
		counter{"currentReplicas", int64(s.CurrentReplicas)}, counter{"updatedReplicas", int64(s.UpdatedReplicas)},
		counter{"availableReplicas", int64(s.AvailableReplicas)}, counter{"observedGeneration", s.ObservedGeneration})
	validateCollisions(f.Child("collisionCount"), s.CollisionCount, old.Status.CollisionCount)
	atMost(f, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	atMost(f, "currentReplicas", s.CurrentReplicas, s.Replicas, "status.replicas")
	atMost(f, "updatedReplicas", s.UpdatedReplicas, s.Replicas, "status.replicas")
	atMost(f, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	atMost(f, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")
}
