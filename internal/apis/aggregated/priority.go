package aggregated

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Priority determines the order of discovery. Groups are sorted by the highest Group value of their versions.
// The versions within a group are sorted by Version. Both orders are descending.
type Priority struct{ Group, Version int32 }

// customPriority is the priority of group versions with custom resources, as in kube-apiserver.
var customPriority = Priority{1000, 100}

// builtInPriority returns the priority with which kube-apiserver registers a built-in group
// version.
func builtInPriority(gv schema.GroupVersion) Priority {
	version := int32(15)
	switch gv {
	case schema.GroupVersion{Version: "v1"}:
		version = 1
	case schema.GroupVersion{Group: "autoscaling", Version: "v2"}:
		version = 30
	case schema.GroupVersion{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "resource.k8s.io", Version: "v1"}:
		version = 21
	}
	return Priority{builtInGroupPriority(gv.Group), version}
}

func builtInGroupPriority(group string) int32 {
	switch group {
	case "":
		return 18000
	case "apps":
		return 17800
	case "events.k8s.io":
		return 17750
	case "authentication.k8s.io":
		return 17700
	case "authorization.k8s.io":
		return 17600
	case "autoscaling":
		return 17500
	case "batch":
		return 17400
	case "certificates.k8s.io":
		return 17300
	case "networking.k8s.io":
		return 17200
	case "policy":
		return 17100
	case "rbac.authorization.k8s.io":
		return 17000
	case "storage.k8s.io":
		return 16800
	case "admissionregistration.k8s.io", "apiextensions.k8s.io":
		return 16700
	case "scheduling.k8s.io":
		return 16600
	case "coordination.k8s.io":
		return 16500
	case "node.k8s.io":
		return 16300
	case "discovery.k8s.io", "resource.k8s.io":
		return 16200
	case "flowcontrol.apiserver.k8s.io":
		return 16100
	}
	return 15800
}
