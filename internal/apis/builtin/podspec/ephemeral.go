package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validateEphemeral validates an ephemeral container. Ephemeral containers cannot reserve resources. targets
// contains the names of the containers that e may target.
func (p *pod) validateEphemeral(f validation.Field, e *corev1.EphemeralContainer, targets *validation.Duplicates[string]) {
	const reason = "cannot be set for an Ephemeral Container"
	c := container{(*corev1.Container)(&e.EphemeralContainerCommon), p}
	c.validateCommon(f)
	for _, field := range [...]setField{
		{"ports", len(c.Ports) > 0}, {"livenessProbe", c.LivenessProbe != nil}, {"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil}, {"lifecycle", c.Lifecycle != nil}, {"resizePolicy", len(c.ResizePolicy) > 0},
		{"resources", len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0},
		{"restartPolicy", c.RestartPolicy != nil}, {"restartPolicyRules", len(c.RestartPolicyRules) > 0},
	} {
		if field.set {
			f.Child(field.name).Forbidden(reason)
		}
	}
	for i := range c.VolumeMounts {
		at := f.Child("volumeMounts").Index(i)
		if c.VolumeMounts[i].SubPath != "" {
			at.Child("subPath").Forbidden(reason)
		}
		if c.VolumeMounts[i].SubPathExpr != "" {
			at.Child("subPathExpr").Forbidden(reason)
		}
	}
	if e.TargetContainerName != "" && !targets.Has(e.TargetContainerName) {
		f.Child("targetContainerName").NotFound(e.TargetContainerName)
	}
}
