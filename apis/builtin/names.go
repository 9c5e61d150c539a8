package builtin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// PodNameWarnings warns of a name from which names of pods are made, where
// that gives pods no good host names.
func PodNameWarnings(name string) []string {
	problems := validation.IsDNS1123Label(name)
	if len(problems) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
		"which can result in surprising behavior; a DNS label is recommended: %v", problems)}
}
