package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Where each kind says what its pods are.

func deploymentPods(d *appsv1.Deployment) *corev1.PodSpec { return &d.Spec.Template.Spec }

func replicaSetPods(rs *appsv1.ReplicaSet) *corev1.PodSpec { return &rs.Spec.Template.Spec }

func statefulSetPods(set *appsv1.StatefulSet) *corev1.PodSpec { return &set.Spec.Template.Spec }
