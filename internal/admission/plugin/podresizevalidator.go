package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// The causes of a rejected resize. Autoscalers evaluate them.
const (
	causeNodeCapacity        metav1.CauseType = "NodeCapacity"
	causeUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// PodResizeValidator rejects the resizing of a running pod if the new requests exceed the capacity of its node,
// or if the node does not run Linux.
type PodResizeValidator struct {
	onUpdate
	Nodes Getter[*corev1.Node]
}

var _ admission.Validator = PodResizeValidator{}

func podResizeValidatorPlugin() Registration {
	return Registration{
		Name: PodResizeValidator{}.Name(), Description: "rejects the resizing of pods beyond the capacity of their node",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return PodResizeValidator{Nodes: d.nodes()} },
	}
}

// Name implements admission.Plugin.
func (PodResizeValidator) Name() string { return "PodResizeValidator" }

// Validate implements admission.Validator. If the generation of the pod is unchanged, the request does not
// resize anything.
func (p PodResizeValidator) Validate(ctx context.Context, a *admission.Attributes) error {
	if !isFor(a, "", "pods", "resize") {
		return nil
	}
	pod, _ := a.Object.(*corev1.Pod)
	old := oldOf[corev1.Pod](a)
	if pod == nil || old == nil || pod.Spec.NodeName == "" || pod.Generation == old.Generation {
		return nil
	}
	node, err := nodeOf(ctx, a, p.Nodes, pod)
	if err != nil {
		return err
	}
	if os, known := node.Labels[corev1.LabelOSStable]; known && os != "linux" {
		return rejectWithCause(a, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os), causeUnsupportedPlatform)
	}
	if err := checkAllocatable(&pod.Spec, node.Status.Allocatable); err != nil {
		return rejectWithCause(a, err, causeNodeCapacity)
	}
	return nil
}

// nodeOf returns the node that a pod is bound to.
func nodeOf(ctx context.Context, a *admission.Attributes, nodes Getter[*corev1.Node], pod *corev1.Pod) (*corev1.Node, error) {
	name := pod.Spec.NodeName
	node, err := nodes.Get(ctx, types.NamespacedName{Name: name})
	switch {
	case apierrors.IsNotFound(err):
		return nil, reject(a, fmt.Errorf("node %q not found", name))
	case err != nil:
		return nil, reject(a, fmt.Errorf("failed to get node %q: %w", name, err))
	}
	return node, nil
}

// checkAllocatable returns an error that lists the requests of a pod that exceed the allocatable resources of
// its node.
func checkAllocatable(spec *corev1.PodSpec, allocatable corev1.ResourceList) error {
	requests := podRequests(spec)
	var missing []string
	for _, r := range [...]struct {
		name   corev1.ResourceName
		amount func(*resource.Quantity) int64
	}{{corev1.ResourceCPU, (*resource.Quantity).MilliValue}, {corev1.ResourceMemory, (*resource.Quantity).Value}} {
		request, given := requests[r.name], allocatable[r.name]
		request = request.DeepCopy()
		request.Add(spec.Overhead[r.name])
		if asked, has := r.amount(&request), r.amount(&given); asked > has {
			missing = append(missing, fmt.Sprintf("%s, requested: %d, allocatable: %d", r.name, asked, has))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("node didn't have enough allocatable resources: " + strings.Join(missing, "; "))
}

// rejectWithCause returns a 403 error for the request with a machine-readable cause.
func rejectWithCause(a *admission.Attributes, reason error, cause metav1.CauseType) error {
	var refused *apierrors.StatusError
	if errors.As(reject(a, reason), &refused) {
		refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return refused
}
