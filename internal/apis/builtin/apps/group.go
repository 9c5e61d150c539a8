// Package apps declares the resources of the apps group.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 returns the group version apps/v1.
func V1() builtin.Group {
	all := []string{"all"}
	return builtin.Group{GroupVersion: appsv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*appsv1.ControllerRevision]{
			Names: builtin.Names{Plural: "controllerrevisions", Kind: "ControllerRevision"}, Namespaced: true,
			Strategy: builtin.Strategy[*appsv1.ControllerRevision]{Validate: validateControllerRevision},
			Columns:  controllerRevisionColumns(),
		}),
		builtin.Resource(builtin.Row[*appsv1.DaemonSet]{
			Names: builtin.Names{Plural: "daemonsets", Kind: "DaemonSet", ShortNames: []string{"ds"}, Categories: all}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy: builtin.Strategy[*appsv1.DaemonSet]{
				Default:          defaultDaemonSet,
				PrepareForCreate: prepareDaemonSet, PrepareForUpdate: prepareDaemonSetUpdate,
				Validate: validateDaemonSet, Warnings: daemonSetWarnings,
			},
			Status:  &builtin.Status[*appsv1.DaemonSet]{PrepareForUpdate: prepareDaemonSetStatus, Validate: validateDaemonSetStatus},
			Columns: daemonSetColumns(),
		}),
		builtin.Resource(builtin.Row[*appsv1.Deployment]{
			Names: builtin.Names{Plural: "deployments", Kind: "Deployment", ShortNames: []string{"deploy"}, Categories: all}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy: builtin.Strategy[*appsv1.Deployment]{
				Default:          defaultDeployment,
				GatedFields:      []builtin.GatedFields[*appsv1.Deployment]{{Gate: feature.DeploymentReplicaSetTerminatingReplicas, Visit: deploymentTerminating}},
				PrepareForCreate: podspec.PrepareForCreate(deploymentPods), PrepareForUpdate: podspec.PrepareForUpdate(deploymentPods),
				SpecChanged: deploymentChanged,
				Validate:    validateDeployment, Warnings: deploymentWarnings,
			},
			Status:  &builtin.Status[*appsv1.Deployment]{PreservedMetadata: []string{"metadata.labels"}, Validate: validateDeploymentStatus},
			Columns: deploymentColumns(), Subresources: []builtin.Subresource{deploymentScale()},
		}),
		builtin.Resource(builtin.Row[*appsv1.ReplicaSet]{
			Names: builtin.Names{Plural: "replicasets", Kind: "ReplicaSet", ShortNames: []string{"rs"}, Categories: all}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy: builtin.Strategy[*appsv1.ReplicaSet]{
				Default:          defaultReplicaSet,
				GatedFields:      []builtin.GatedFields[*appsv1.ReplicaSet]{{Gate: feature.DeploymentReplicaSetTerminatingReplicas, Visit: replicaSetTerminating}},
				PrepareForCreate: podspec.PrepareForCreate(replicaSetPods), PrepareForUpdate: podspec.PrepareForUpdate(replicaSetPods),
				Validate: validateReplicaSet, Warnings: replicaSetWarnings,
			},
			Status:  &builtin.Status[*appsv1.ReplicaSet]{Validate: validateReplicaSetStatus},
			Columns: replicaSetColumns(), Subresources: []builtin.Subresource{replicaSetScale()},
		}),
		builtin.Resource(builtin.Row[*appsv1.StatefulSet]{
			Names: builtin.Names{Plural: "statefulsets", Kind: "StatefulSet", ShortNames: []string{"sts"}, Categories: all}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true, ValidateName: validation.NameIsDNSLabel},
			Strategy: builtin.Strategy[*appsv1.StatefulSet]{
				Default:          defaultStatefulSet,
				GatedFields:      []builtin.GatedFields[*appsv1.StatefulSet]{{Gate: feature.MaxUnavailableStatefulSet, Visit: maxUnavailable, Default: defaultMaxUnavailable}},
				PrepareForCreate: podspec.PrepareForCreate(statefulSetPods), PrepareForUpdate: podspec.PrepareForUpdate(statefulSetPods),
				Validate: validateStatefulSet, Warnings: statefulSetWarnings,
			},
			Status:  &builtin.Status[*appsv1.StatefulSet]{Validate: validateStatefulSetStatus},
			Columns: statefulSetColumns(), Subresources: []builtin.Subresource{statefulSetScale()},
		}),
	}}
}
