package node

import (
	nodev1 "k8s.io/api/node/v1"

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
