package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// revisionHistory is the default number of old revisions that are kept for rollbacks.
const revisionHistory = 10

// progressDeadline is the default progress deadline of a deployment, in seconds.
const progressDeadline = 600

func defaultDeployment(d *appsv1.Deployment) {
	builtin.SetDefault(&d.Spec.Replicas, 1)
	builtin.SetDefault(&d.Spec.RevisionHistoryLimit, revisionHistory)
	builtin.SetDefault(&d.Spec.ProgressDeadlineSeconds, progressDeadline)
	strategy := &d.Spec.Strategy
	builtin.SetDefaultValue(&strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		builtin.SetDefault(&strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		builtin.SetDefault(&strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		builtin.SetDefault(&strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	podspec.Default(&d.Spec.Template.Spec)
}

func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	builtin.SetDefault(&rs.Spec.Replicas, 1)
	podspec.Default(&rs.Spec.Template.Spec)
}

func defaultDaemonSet(ds *appsv1.DaemonSet) {
	startTemplateGeneration(ds)
	builtin.SetDefault(&ds.Spec.RevisionHistoryLimit, revisionHistory)
	strategy := &ds.Spec.UpdateStrategy
	builtin.SetDefaultValue(&strategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if strategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		builtin.SetDefault(&strategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		builtin.SetDefault(&strategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		builtin.SetDefault(&strategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	podspec.Default(&ds.Spec.Template.Spec)
}

func defaultStatefulSet(set *appsv1.StatefulSet) {
	spec := &set.Spec
	builtin.SetDefault(&spec.Replicas, 1)
	builtin.SetDefault(&spec.RevisionHistoryLimit, revisionHistory)
	builtin.SetDefaultValue(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	defaultUpdateStrategy(&spec.UpdateStrategy)
	builtin.SetDefault(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	builtin.SetDefaultValue(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	builtin.SetDefaultValue(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range spec.VolumeClaimTemplates {
		claim := &spec.VolumeClaimTemplates[i]
		claim.APIVersion, claim.Kind = corev1.SchemeGroupVersion.String(), "PersistentVolumeClaim" // overwrites the client's values
		podspec.DefaultVolumeClaim(claim)
	}
	podspec.Default(&spec.Template.Spec)
}

// defaultUpdateStrategy sets the default update strategy. It sets rolling update parameters only if the client
// has not set the strategy type.
func defaultUpdateStrategy(strategy *appsv1.StatefulSetUpdateStrategy) {
	if strategy.Type == "" {
		strategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		builtin.SetDefault(&strategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && strategy.RollingUpdate != nil {
		builtin.SetDefault(&strategy.RollingUpdate.Partition, 0)
	}
}
