package node

import (
	"maps"
	"slices"

	nodev1 "k8s.io/api/node/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateRuntimeClass(f validation.Field, class, old *nodev1.RuntimeClass) {
	validateHandler(f.Child("handler"), class, old)
	podspec.ValidateRuntimeClass(f, class, old)
}

// validateHandler validates the handler, unless it is unchanged.
func validateHandler(f validation.Field, class, old *nodev1.RuntimeClass) {
	switch handler := class.Handler; {
	case old != nil && handler == old.Handler:
		return
	case handler == "":
		f.Required("")
	default:
		f.DNSLabel(handler)
	}
	if old != nil {
		validation.ImmutableValue(f, class.Handler, old.Handler)
	}
}

// runtimeClassWarnings returns the warnings for deprecated labels in the node selector.
func runtimeClassWarnings(_ *builtin.Operation, class, _ *nodev1.RuntimeClass) []string {
	if class.Scheduling == nil {
		return nil
	}
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		if text := podspec.DeprecatedNodeLabel(key); text != "" {
			warnings = append(warnings, "scheduling.nodeSelector: "+text)
		}
	}
	return warnings
}
