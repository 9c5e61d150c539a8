package builtin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// PodNameWarnings is a hook for Strategy.Warnings. It returns a warning if the name of a new object would
// result in invalid host names of pods.
func PodNameWarnings[T any, O object[T]](_ *Operation, obj, old O) []string {
	if old != nil {
		return nil
	}
	problems := validation.IsDNS1123Label(obj.GetName())
	if len(problems) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, "+
		"which can result in surprising behavior; a DNS label is recommended: %v", problems)}
}
