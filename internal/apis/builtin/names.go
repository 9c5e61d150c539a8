package builtin

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// PodNameWarnings warns, as Row.Warnings, of the name of a new object from which
// names of pods are made, where that gives pods no good host names.
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
