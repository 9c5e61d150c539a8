package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec/quantity"
)

// IsHugePages reports whether a resource is memory in huge pages.
func IsHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// validateHugePages requires that quantities of huge pages are multiples of the page size. Stored pods may
// violate this rule, because they may be older than it.
func (p *pod) validateHugePages(f validation.Field) {
	if p.old != nil && f.Violates(func(f validation.Field) { (&pod{spec: p.old}).validateHugePages(f) }) {
		return
	}
	validatePages(f.Child("overhead").Child("limits"), p.spec.Overhead)
	p.eachContainer(f, func(at validation.Field, c *corev1.Container) {
		validatePages(at.Child("resources").Child("limits"), c.Resources.Limits)
		validatePages(at.Child("resources").Child("requests"), c.Resources.Requests)
	})
	if r := p.spec.Resources; r != nil {
		validatePages(f.Child("resources").Child("limits"), r.Limits)
		validatePages(f.Child("resources").Child("requests"), r.Requests)
	}
}

func validatePages(f validation.Field, resources corev1.ResourceList) {
	for name, amount := range resources {
		if !IsHugePages(name) {
			continue
		}
		page, err := quantity.Parse(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
		if err == nil && page.Value() > 0 && amount.Value()%page.Value() != 0 {
			f.Key(string(name)).Invalid(amount.String(), "must be divisible by the page size "+page.String())
		}
	}
}
