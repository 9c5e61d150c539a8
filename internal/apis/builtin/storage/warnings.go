package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
)

// maxWarnings is the maximum number of warnings for one object.
const maxWarnings = 100

// classWarnings warns about deprecated node labels in the topology of a class.
func classWarnings(_ *builtin.Operation, class, _ *storagev1.StorageClass) []string {
	var warnings []string
	for i := range class.AllowedTopologies {
		term := class.AllowedTopologies[i].MatchLabelExpressions
		for j := range term {
			if text := podspec.DeprecatedNodeLabel(term[j].Key); text != "" && len(warnings) < maxWarnings {
				warnings = append(warnings, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d].key: %s", i, j, text))
			}
		}
	}
	return warnings
}

// capacityWarnings warns about deprecated node labels in the node topology of a storage capacity.
func capacityWarnings(_ *builtin.Operation, capacity, _ *storagev1.CSIStorageCapacity) []string {
	topology := capacity.NodeTopology
	if topology == nil {
		return nil
	}
	var warnings []string
	for i := range topology.MatchExpressions {
		key := topology.MatchExpressions[i].Key
		if text := podspec.DeprecatedNodeLabel(key); text != "" && len(warnings) < maxWarnings {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchExpressions[%d].key: %s is %s", i, key, text))
		}
	}
	for key := range topology.MatchLabels {
		if text := podspec.DeprecatedNodeLabel(key); text != "" && len(warnings) < maxWarnings {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchLabels.%s: %s", key, text))
		}
	}
	return warnings
}
