package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/registry"
)

// podConnection provides access to pods and to the kubelets that run them.
type podConnection struct {
	env  *builtin.Env
	pods *registry.Store
}

// kubelet returns the connection information of a node's kubelet.
func (c podConnection) kubelet(ctx context.Context, node string) (*kubelet.ConnectionInfo, error) {
	found, err := readStored[*corev1.Node](ctx, c.env.Store(corev1.Resource("nodes")), types.NamespacedName{Name: node})
	if err != nil {
		return nil, err
	}
	return c.env.Connections.Kubelets.ConnectionInfo(found)
}

// assigned returns the connection information of a pod's kubelet, or an error if the pod is not assigned to a
// node.
func (c podConnection) assigned(ctx context.Context, pod *corev1.Pod) (*kubelet.ConnectionInfo, error) {
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	return c.kubelet(ctx, pod.Spec.NodeName)
}

// containerNames returns the names of all containers of a pod, including init and ephemeral containers.
func containerNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// containerOf returns the name of the requested container, or of the only container if asked is empty. It
// returns an error if the pod has no container with the requested name, because the name becomes part of a URL
// path.
func containerOf(pod *corev1.Pod, asked string) (string, error) {
	switch {
	case asked != "" && !slices.Contains(containerNames(pod), asked):
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", asked, pod.Name))
	case asked != "":
		return asked, nil
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	case len(pod.Spec.Containers) == 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, containerNames(pod)))
}
