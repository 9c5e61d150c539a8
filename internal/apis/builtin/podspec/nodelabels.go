package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Node labels for which k8s.io/api does not define constants.
const (
	betaArch    = "beta.kubernetes.io/arch"
	betaOS      = "beta.kubernetes.io/os"
	createdBy   = "app.kubernetes.io/created-by"
	nodeMaster  = "node-role.kubernetes.io/master"
	nodeControl = "node-role.kubernetes.io/control-plane"
)

// DeprecatedNodeLabel returns the warning for a deprecated node label, or "" for other labels.
func DeprecatedNodeLabel(key string) string {
	switch key {
	case betaArch, betaOS:
		return fmt.Sprintf("deprecated since v1.14; use %q instead", StableNodeLabel(key))
	case corev1.LabelFailureDomainBetaRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelInstanceType:
		return fmt.Sprintf("deprecated since v1.17; use %q instead", StableNodeLabel(key))
	case createdBy:
		return "deprecated since v1.9"
	case corev1.PreferAvoidPodsAnnotationKey:
		return "deprecated since v1.22; use Taints and Tolerations instead"
	case nodeMaster:
		return fmt.Sprintf("use %q instead", nodeControl)
	}
	return ""
}

// StableNodeLabel returns the stable name of a beta node label, or "" for other labels.
func StableNodeLabel(beta string) string {
	switch beta {
	case betaArch:
		return corev1.LabelArchStable
	case betaOS:
		return corev1.LabelOSStable
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case corev1.LabelFailureDomainBetaZone:
		return corev1.LabelTopologyZone
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	}
	return ""
}

// NodeSelectorWarnings returns the warnings for a node selector.
func NodeSelectorWarnings(path string, selector *corev1.NodeSelector) []string {
	var warnings []string
	for i := range selector.NodeSelectorTerms {
		expressions := selector.NodeSelectorTerms[i].MatchExpressions
		for j := range expressions {
			if text := DeprecatedNodeLabel(expressions[j].Key); text != "" && len(warnings) < maxWarnings {
				warnings = append(warnings, fmt.Sprintf("%s.nodeSelectorTerms[%d].matchExpressions[%d].key: %s is %s", path, i, j, expressions[j].Key, text))
			}
		}
	}
	return warnings
}
