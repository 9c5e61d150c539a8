// Package apps declares the resources of the apps group.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is apps/v1.
func V1() builtin.Group {
	all := []string{"all"}
	return builtin.Group{GroupVersion: appsv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[appsv1.ControllerRevision]{
			Name: "controllerrevisions", Kind: "ControllerRevision", Namespaced: true,
			Validate: validateControllerRevision,
			Columns:  controllerRevisionColumns(),
		}),
		builtin.Resource(builtin.Row[appsv1.DaemonSet]{
			Name: "daemonsets", Kind: "DaemonSet", Namespaced: true, ShortNames: []string{"ds"}, Categories: all,
			Status: true, Generation: true,
			Default: defaultDaemonSet, Prepare: prepareDaemonSet, PrepareUpdate: prepareDaemonSetUpdate, PrepareStatus: prepareDaemonSetStatus,
			Warnings: daemonSetWarnings,
			Validate: validateDaemonSet, ValidateStatus: validateDaemonSetStatus,
			Columns: daemonSetColumns(),
		}),
		builtin.Resource(builtin.Row[appsv1.Deployment]{
			Name: "deployments", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}, Categories: all,
			Status: true, StatusKeeps: []string{"metadata.labels"}, Generation: true, SpecChanged: deploymentChanged,
			Default: defaultDeployment, Prepare: podspec.Prepare(deploymentPods), PrepareUpdate: podspec.PrepareUpdate(deploymentPods),
			Gated:    []builtin.Gated[appsv1.Deployment]{{Gate: feature.DeploymentReplicaSetTerminatingReplicas, Fields: deploymentTerminating}},
			Warnings: deploymentWarnings,
			Validate: validateDeployment, ValidateStatus: validateDeploymentStatus,
			Columns: deploymentColumns(), Subresources: []builtin.Subresource{deploymentScale()},
		}),
		builtin.Resource(builtin.Row[appsv1.ReplicaSet]{
			Name: "replicasets", Kind: "ReplicaSet", Namespaced: true, ShortNames: []string{"rs"}, Categories: all,
			Status: true, Generation: true,
			Default: defaultReplicaSet, Prepare: podspec.Prepare(replicaSetPods), PrepareUpdate: podspec.PrepareUpdate(replicaSetPods),
			Gated:    []builtin.Gated[appsv1.ReplicaSet]{{Gate: feature.DeploymentReplicaSetTerminatingReplicas, Fields: replicaSetTerminating}},
			Warnings: replicaSetWarnings,
			Validate: validateReplicaSet, ValidateStatus: validateReplicaSetStatus,
			Columns: replicaSetColumns(), Subresources: []builtin.Subresource{replicaSetScale()},
		}),
		builtin.Resource(builtin.Row[appsv1.StatefulSet]{
			Name: "statefulsets", Kind: "StatefulSet", Namespaced: true, ShortNames: []string{"sts"}, Categories: all,
			Status: true, Generation: true, ValidateName: validation.NameIsDNSLabel,
			Default: defaultStatefulSet, Prepare: podspec.Prepare(statefulSetPods), PrepareUpdate: podspec.PrepareUpdate(statefulSetPods),
			Gated:    []builtin.Gated[appsv1.StatefulSet]{{Gate: feature.MaxUnavailableStatefulSet, Fields: maxUnavailable, Default: defaultMaxUnavailable}},
			Warnings: statefulSetWarnings,
			Validate: validateStatefulSet, ValidateStatus: validateStatefulSetStatus,
			Columns: statefulSetColumns(), Subresources: []builtin.Subresource{statefulSetScale()},
		}),
	}}
}
