package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/resource"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// anyName accepts all names. A +k8s marker validates the names of classes, including generated names.
func anyName(string, bool) []string { return nil }

func (s *selectors) validateDeviceClass(f validation.Field, class, old *resourcev1.DeviceClass) {
	spec, at := &class.Spec, f.Child("spec")
	if old == nil || validation.Changed(spec.Selectors, old.Spec.Selectors) {
		s.validateSelectors(at.Child("selectors"), spec.Selectors)
	}
	if len(spec.Config) <= resourcev1.DeviceConfigMaxSize && (old == nil || validation.Changed(spec.Config, old.Spec.Config)) {
		for i := range spec.Config {
			validateConfiguration(at.Child("config").Index(i), &spec.Config[i].DeviceConfiguration)
		}
	}
	validation.ValidateDeclared(f, declared.Validate_DeviceClass, class, old, "")
}
