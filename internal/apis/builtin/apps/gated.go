package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// The functions in this file are hooks for GatedFields.

func deploymentTerminating(u *builtin.FieldVisitor, deployment *appsv1.Deployment) {
	builtin.VisitField(u, &deployment.Status.TerminatingReplicas)
}

func replicaSetTerminating(u *builtin.FieldVisitor, set *appsv1.ReplicaSet) {
	builtin.VisitField(u, &set.Status.TerminatingReplicas)
}

func maxUnavailable(u *builtin.FieldVisitor, set *appsv1.StatefulSet) {
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		builtin.VisitField(u, &rolling.MaxUnavailable)
	}
}

func defaultMaxUnavailable(set *appsv1.StatefulSet) {
	strategy := &set.Spec.UpdateStrategy
	if rolling := strategy.RollingUpdate; rolling != nil && strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		builtin.SetDefault(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
}
