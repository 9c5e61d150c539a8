// Package apps declares the resources of the apps group.
//
// Imports: apis/builtin.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is apps/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: appsv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[appsv1.ControllerRevision]{
			Name: "controllerrevisions", Kind: "ControllerRevision", Namespaced: true,
		}),
		builtin.Resource(builtin.Row[appsv1.DaemonSet]{
			Name: "daemonsets", Kind: "DaemonSet", Namespaced: true, ShortNames: []string{"ds"},
			Categories: []string{"all"},
			Status:     true, Generation: true,
		}),
		builtin.Resource(builtin.Row[appsv1.Deployment]{
			Name: "deployments", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"},
			Categories: []string{"all"},
			Status:     true, StatusKeeps: []string{"metadata.labels"}, Generation: true,
		}),
		builtin.Resource(builtin.Row[appsv1.ReplicaSet]{
			Name: "replicasets", Kind: "ReplicaSet", Namespaced: true, ShortNames: []string{"rs"},
			Categories: []string{"all"},
			Status:     true, Generation: true,
		}),
		builtin.Resource(builtin.Row[appsv1.StatefulSet]{
			Name: "statefulsets", Kind: "StatefulSet", Namespaced: true, ShortNames: []string{"sts"},
			Categories: []string{"all"},
			Status:     true, Generation: true,
			ValidateName: validation.NameIsDNSLabel,
		}),
	}}
}
