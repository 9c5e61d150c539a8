package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodes is the number of simulated nodes.
const nodes = 3

// kubelets simulates the kubelets of all nodes: it runs scheduled pods, completes the pods of Jobs, and ends
// deleted pods.
type kubelets struct {
	client kubernetes.Interface
	t      *testing.T
}

// period is the interval between two syncs of all pods.
const period = 100 * time.Millisecond

// run registers the nodes and syncs pods until ctx ends. It retries while the server is
// unavailable.
func (k *kubelets) run(ctx context.Context) {
	for registered := 0; registered < nodes && ctx.Err() == nil; {
		if err := k.register(ctx, fmt.Sprintf("node-%d", registered)); err == nil {
			registered++
		}
	}
	for ctx.Err() == nil {
		pods, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		for n := 0; err == nil && n < len(pods.Items); n++ {
			if err := k.sync(ctx, &pods.Items[n]); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				k.t.Logf("kubelet: %v", err)
			}
		}
		select {
		case <-time.After(period):
		case <-ctx.Done():
		}
	}
}

func (k *kubelets) register(ctx context.Context, name string) error {
	capacity := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
	node, err := k.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}
	_, err = k.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// sync writes the next state of a pod, if its state must change.
func (k *kubelets) sync(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.Spec.NodeName == "":
		return nil
	case pod.DeletionTimestamp != nil:
		return k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
	case pod.Status.Phase != corev1.PodPending:
		return nil
	}
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime, pod.Status.PodIP = corev1.PodRunning, &now, "10.244.0.1"
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	ready := corev1.ConditionTrue
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		pod.Status.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: ready, LastTransitionTime: now})
	}
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}
