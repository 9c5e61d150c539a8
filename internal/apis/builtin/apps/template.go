package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// The following functions return the pod specs of workloads.

func deploymentPods(d *appsv1.Deployment) *corev1.PodSpec { return &d.Spec.Template.Spec }

func replicaSetPods(rs *appsv1.ReplicaSet) *corev1.PodSpec { return &rs.Spec.Template.Spec }

func statefulSetPods(set *appsv1.StatefulSet) *corev1.PodSpec { return &set.Spec.Template.Spec }

const templatePath = "spec.template.spec"

func deploymentWarnings(op *builtin.Operation, d, old *appsv1.Deployment) []string {
	return append(builtin.PodNameWarnings(op, d, old), templateWarnings(d, old, func(d *appsv1.Deployment) *corev1.PodTemplateSpec { return &d.Spec.Template })...)
}

func replicaSetWarnings(op *builtin.Operation, rs, old *appsv1.ReplicaSet) []string {
	return append(builtin.PodNameWarnings(op, rs, old), templateWarnings(rs, old, func(rs *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &rs.Spec.Template })...)
}

func daemonSetWarnings(_ *builtin.Operation, ds, old *appsv1.DaemonSet) []string {
	return templateWarnings(ds, old, func(ds *appsv1.DaemonSet) *corev1.PodTemplateSpec { return &ds.Spec.Template })
}

// templateWarnings returns the warnings for the pod template of an object. old may be nil.
func templateWarnings[T any](obj, old *T, template func(*T) *corev1.PodTemplateSpec) []string {
	if old == nil {
		return podspec.TemplateWarnings(templatePath, template(obj), nil)
	}
	return podspec.TemplateWarnings(templatePath, template(obj), template(old))
}
