package bootstrap

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
)

func namespaces() set {
	var all []*corev1.Namespace
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault} {
		all = append(all, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		})
	}
	return set{resource: corev1.SchemeGroupVersion.WithResource("namespaces"), objects: objects(all)}
}

// priorityClasses returns the priority classes for pods that a cluster cannot work without.
func priorityClasses() set {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		policy := corev1.PreemptLowerPriority
		return &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Description: description, PreemptionPolicy: &policy,
		}
	}
	return set{resource: schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), objects: []codec.Object{
		class("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}}
}

const (
	tokenTrackingName = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey          = "since"
)

// tokenTracking returns the ConfigMap with the date since which the use of service account tokens in Secrets is
// tracked, which is the day of the first start. An existing valid date is not changed.
func tokenTracking(now time.Time) set {
	return set{
		resource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		objects: []codec.Object{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: tokenTrackingName},
			Data:       map[string]string{sinceKey: now.UTC().Format(time.DateOnly)},
		}},
		revise: func(existing, wanted codec.Object) bool {
			is := existing.(*corev1.ConfigMap)
			if _, err := time.Parse(time.DateOnly, is.Data[sinceKey]); err == nil {
				return false
			}
			if is.Data == nil {
				is.Data = map[string]string{}
			}
			is.Data[sinceKey] = wanted.(*corev1.ConfigMap).Data[sinceKey]
			return true
		},
	}
}
