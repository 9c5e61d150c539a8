package core

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func podColumns() *builtin.Columns[*corev1.Pod] {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return &builtin.Columns[*corev1.Pod]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Ready", "string", "The aggregate readiness state of this pod for accepting traffic."),
			builtin.Column("Status", "string", "The aggregate status of the containers in this pod."),
			builtin.Column("Restarts", "string", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
			builtin.AgeColumn(),
			builtin.WideColumn("IP", "string", status["podIP"]),
			builtin.WideColumn("Node", "string", spec["nodeName"]),
			builtin.WideColumn("Nominated Node", "string", status["nominatedNodeName"]),
			builtin.WideColumn("Readiness Gates", "string", spec["readinessGates"]),
		},
		Cells: func(pod *corev1.Pod, now time.Time) []any {
			ip := ""
			if len(pod.Status.PodIPs) > 0 {
				ip = pod.Status.PodIPs[0].IP
			}
			s := summarize(pod)
			return []any{
				pod.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.reason, s.restartText(now),
				builtin.Age(pod.CreationTimestamp, now), builtin.OrNone(ip), builtin.OrNone(pod.Spec.NodeName),
				builtin.OrNone(pod.Status.NominatedNodeName), readinessGateText(pod),
			}
		},
		Conditions: podRowConditions,
	}
}

// podRowConditions returns the row conditions that identify completed pods to clients.
func podRowConditions(pod *corev1.Pod) []metav1.TableRowCondition {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return []metav1.TableRowCondition{{
			Type: metav1.RowCompleted, Status: metav1.ConditionTrue,
			Reason: string(corev1.PodSucceeded), Message: "The pod has completed successfully.",
		}}
	case corev1.PodFailed:
		return []metav1.TableRowCondition{{
			Type: metav1.RowCompleted, Status: metav1.ConditionTrue,
			Reason: string(corev1.PodFailed), Message: "The pod failed.",
		}}
	}
	return nil
}

func readinessGateText(pod *corev1.Pod) string {
	gates := pod.Spec.ReadinessGates
	if len(gates) == 0 {
		return builtin.None
	}
	conditions := make(map[corev1.PodConditionType]bool, len(pod.Status.Conditions))
	for _, c := range slices.Backward(pod.Status.Conditions) { // the first condition of a type is relevant
		conditions[c.Type] = isTrue(&c)
	}
	open := 0
	for i := range gates {
		if conditions[gates[i].ConditionType] {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(gates))
}

// podSummary contains the values for the table cells of a pod.
type podSummary struct {
	ready, total int
	reason       string
	restarts     int
	restarted    metav1.Time // zero if the time of the last restart is unknown

	// Restarts of sidecars. They are added to the restarts of the regular containers once the pod is
	// initialized.
	sidecarRestarts  int
	sidecarRestarted metav1.Time
}

func summarize(pod *corev1.Pod) *podSummary {
	s := &podSummary{total: len(pod.Spec.Containers), reason: string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		s.reason = pod.Status.Reason
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonSchedulingGated {
		s.reason = corev1.PodReasonSchedulingGated
	}
	initializing := s.addInitContainers(pod)
	if !initializing || isTrue(podCondition(pod, corev1.PodInitialized)) {
		s.addContainers(pod)
	}
	if pod.DeletionTimestamp != nil {
		if pod.Status.Reason == nodeLost {
			s.reason = "Unknown"
		} else if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			s.reason = "Terminating"
		}
	}
	return s
}

// nodeLost is the status reason for pods on unreachable nodes.
const nodeLost = "NodeLost"

// addInitContainers evaluates the init containers up to and including the first incomplete one. It reports
// whether the pod is still initializing.
func (s *podSummary) addInitContainers(pod *corev1.Pod) (initializing bool) {
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.total++
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		sidecar := sidecars[status.Name]
		s.addRestarts(status)
		if sidecar {
			s.sidecarRestarts += int(status.RestartCount)
			s.sidecarRestarted = later(s.sidecarRestarted, status)
		}
		if terminated := status.State.Terminated; terminated != nil && terminated.ExitCode == 0 {
			continue
		}
		if sidecar && status.Started != nil && *status.Started {
			if status.Ready {
				s.ready++
			}
			continue
		}
		s.reason = initReason(status, i, len(pod.Spec.InitContainers))
		return true
	}
	return false
}

func initReason(status *corev1.ContainerStatus, index, total int) string {
	terminated, waiting := status.State.Terminated, status.State.Waiting
	switch {
	case terminated != nil:
		return "Init:" + terminationText(terminated)
	case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
		return "Init:" + waiting.Reason
	}
	return fmt.Sprintf("Init:%d/%d", index, total)
}

func terminationText(terminated *corev1.ContainerStateTerminated) string {
	switch {
	case terminated.Reason != "":
		return terminated.Reason
	case terminated.Signal != 0:
		return fmt.Sprintf("Signal:%d", terminated.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", terminated.ExitCode)
}

// completed is the reason of a container that has terminated successfully.
const completed = "Completed"

// addContainers evaluates the containers from last to first, so that the reason of the first container that
// has one takes precedence.
func (s *podSummary) addContainers(pod *corev1.Pod) {
	s.restarts, s.restarted = s.sidecarRestarts, s.sidecarRestarted
	running, failure := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.ContainerStatuses[i]
		s.addRestarts(status)
		waiting, terminated := status.State.Waiting, status.State.Terminated
		switch {
		case waiting != nil && waiting.Reason != "":
			s.reason = waiting.Reason
		case terminated != nil:
			s.reason = terminationText(terminated)
			if terminated.ExitCode != 0 {
				failure = s.reason
			}
		case status.Ready && status.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason == completed {
		s.reason = reasonAfterCompletion(pod, running, failure)
	}
}

// reasonAfterCompletion returns the reason for a pod that has a completed container. Other containers may
// still be running.
func reasonAfterCompletion(pod *corev1.Pod, running bool, failure string) string {
	switch {
	case running && isTrue(podCondition(pod, corev1.PodReady)):
		return "Running"
	case failure != "":
		return failure
	case running:
		return "NotReady"
	}
	return completed
}

func (s *podSummary) addRestarts(status *corev1.ContainerStatus) {
	s.restarts += int(status.RestartCount)
	s.restarted = later(s.restarted, status)
}

// later returns the later of t and the time of the last termination of a container.
func later(t metav1.Time, status *corev1.ContainerStatus) metav1.Time {
	if last := status.LastTerminationState.Terminated; last != nil && t.Before(&last.FinishedAt) {
		return last.FinishedAt
	}
	return t
}

func (s *podSummary) restartText(now time.Time) string {
	if s.restarts == 0 || s.restarted.IsZero() {
		return strconv.Itoa(s.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", s.restarts, builtin.Age(s.restarted, now))
}
