package builtin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// PodNameWarnings is a Row.Warnings hook that warns of object names that result in invalid host
// names of pods.
func PodNameWarnings[T any, P object[T]](_ *Operation, obj, old *T) []string {
	if old != nil {
		return nil
	}
	problems := validation.IsDNS1123Label(P(obj).GetName())
	if len(problems) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
		"which can result in surprising behavior; a DNS label is recommended: %v", problems)}
}
