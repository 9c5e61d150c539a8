package core

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/simulation"
)

func pods() builtin.Row[*corev1.Pod] {
	return builtin.Row[*corev1.Pod]{
		Names: builtin.Names{Plural: "pods", Kind: "Pod", ShortNames: []string{"po"}, Categories: []string{"all"}}, Namespaced: true,
		WritePolicy: builtin.WritePolicy{Generation: true, ReturnDeletedObject: true},
		Strategy: builtin.Strategy[*corev1.Pod]{
			Default:          defaultPod,
			PrepareForCreate: preparePod, PrepareForUpdate: preparePodUpdate,
			Validate: validatePod, Warnings: podWarnings,
		},
		Status: &builtin.Status[*corev1.Pod]{
			PreservedMetadata: []string{"metadata.ownerReferences"}, PrepareForUpdate: preparePodStatus, Validate: validatePodStatus,
		},
		Deletion: builtin.Deletion[*corev1.Pod]{GracePeriod: podGracePeriod},
		FieldSelectors: builtin.FieldSelectors[*corev1.Pod]{
			Keys: podFieldKeys(), Indexed: []string{"spec.nodeName"}, ConvertLabel: podFieldLabel,
			Values: podFields,
		},
		Columns: podColumns(),
		Subresources: []builtin.Subresource{
			podAttach(), podBinding(), podEphemeralContainers(), podEviction(), podExec(), podLog(), podPortForward(), podProxy(), podResize(),
		},
	}
}

func preparePod(op *builtin.Operation, pod *corev1.Pod) {
	podspec.DropDisabledFields(op.Env.Gates, &pod.Spec, nil)
	completePodResources(&pod.Spec)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(&pod.Spec)}
	if len(pod.Spec.SchedulingGates) > 0 {
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates",
		}, simulation.Now(op.Context))
	}
	mergeLabelKeys(op, pod)
	syncAppArmor(op, pod)
}

func preparePodUpdate(op *builtin.Operation, pod, old *corev1.Pod) {
	podspec.DropDisabledFields(op.Env.Gates, &pod.Spec, &old.Spec)
}

// alignPodIPs makes podIP equal to the first element of podIPs, for clients that use only one of the two
// fields. If both are set and differ, podIP, the older field, takes precedence.
func alignPodIPs(pod *corev1.Pod) {
	status := &pod.Status
	switch {
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	}
}

// preparePodStatus preserves fields that kubelets may omit, and drops fields of disabled features.
func preparePodStatus(op *builtin.Operation, pod, old *corev1.Pod) {
	dropDisabledStatus(op.Env.Gates, &pod.Status, &old.Status)
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = old.Status.QOSClass
		if pod.Status.QOSClass == "" {
			pod.Status.QOSClass = qosClass(&pod.Spec)
		}
	}
	if pod.Status.ObservedGeneration == 0 && old.Status.ObservedGeneration != 0 {
		pod.Status.ObservedGeneration = old.Status.ObservedGeneration
	}
}

// defaultGracePeriod is the default grace period for the deletion of a pod, in seconds.
const defaultGracePeriod = 30

// podGracePeriod returns the grace period for the deletion of a pod, in seconds. It is 0 for pods that cannot
// be running. Otherwise, it is the requested grace period or, by default, the grace period in the pod's spec.
func podGracePeriod(pod *corev1.Pod, asked *int64) int64 {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	period := int64(defaultGracePeriod)
	if asked != nil {
		period = *asked
	} else if pod.Spec.TerminationGracePeriodSeconds != nil {
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	if period < 0 {
		return 1
	}
	return period
}

func podFields(pod *corev1.Pod) fields.Set {
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             ip,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

func podFieldKeys() []string {
	return []string{
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
		"status.phase", "status.podIP", "status.nominatedNodeName",
	}
}

// podFieldLabel accepts the field selector keys of pods, the legacy key spec.host, and status.podIPs, which
// never matches a pod.
func podFieldLabel(label, value string) (string, string, error) {
	if label == "spec.host" {
		label = "spec.nodeName"
	}
	return fieldLabel(append(podFieldKeys(), "metadata.name", "metadata.namespace", "status.podIPs")...)(label, value)
}
