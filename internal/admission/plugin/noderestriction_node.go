package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/admission"
)

// restrictNode prevents a node from changing other nodes. It also prevents the node from setting labels that
// could attract pods with secrets.
func restrictNode(a *admission.Attributes, name string) error {
	if asked := nameOf(a); asked != name {
		return reject(a, fmt.Errorf("node %q is not allowed to modify node %q", name, asked))
	}
	node, _ := a.Object.(*corev1.Node)
	old := oldOf[corev1.Node](a)
	switch {
	case a.Operation == admission.Delete:
		return nil
	case a.Operation == admission.Create && node != nil:
		return restrictNewNode(a, node, name)
	case a.Operation == admission.Update && node != nil && old != nil:
		return restrictChangedNode(a, node, old, name)
	}
	return unexpected(a)
}

func restrictNewNode(a *admission.Attributes, node *corev1.Node, name string) error {
	if node.Spec.ConfigSource != nil {
		return reject(a, fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", name))
	}
	if labels := forbiddenLabels(node.Labels, nil); len(labels) > 0 {
		return reject(a, fmt.Errorf("node %q is not allowed to set the following labels: %s", name, strings.Join(labels, ", ")))
	}
	return nil
}

func restrictChangedNode(a *admission.Attributes, node, old *corev1.Node, name string) error {
	same := equality.Semantic.DeepEqual
	switch {
	case node.Spec.ConfigSource != nil && !same(node.Spec.ConfigSource, old.Spec.ConfigSource):
		return reject(a, fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", name))
	case !same(node.Spec.Taints, old.Spec.Taints):
		return reject(a, fmt.Errorf("node %q is not allowed to modify taints", name))
	case !same(node.OwnerReferences, old.OwnerReferences):
		return reject(a, fmt.Errorf("node %q is not allowed to modify ownerReferences", name))
	}
	if labels := forbiddenLabels(node.Labels, old.Labels); len(labels) > 0 {
		return reject(a, errors.New("is not allowed to modify labels: "+strings.Join(labels, ", ")))
	}
	return nil
}

// forbiddenLabels returns the keys of the changed labels that a node must not change, sorted.
func forbiddenLabels(labels, old map[string]string) []string {
	var forbidden []string
	check := func(key string) {
		if !isKubeletLabelAllowed(key) {
			forbidden = append(forbidden, key)
		}
	}
	for key, value := range labels {
		if had, ok := old[key]; !ok || had != value {
			check(key)
		}
	}
	for key := range old {
		if _, ok := labels[key]; !ok {
			check(key)
		}
	}
	slices.Sort(forbidden)
	return forbidden
}

// isKubeletLabelAllowed reports whether kubelets may set a label. They may set all labels outside the domains
// kubernetes.io and k8s.io, and certain labels within them, but no label below node-restriction.kubernetes.io.
func isKubeletLabelAllowed(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	within := func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }
	if within(corev1.LabelNamespaceNodeRestriction) {
		return false
	}
	if !within("kubernetes.io") && !within("k8s.io") {
		return true
	}
	return within(corev1.LabelNamespaceSuffixKubelet) || within(corev1.LabelNamespaceSuffixNode) || kubeletLabel(key)
}

func kubeletLabel(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable:
		return true
	}
	return false
}
