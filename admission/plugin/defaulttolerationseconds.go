package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/admission"
)

// tolerationSeconds is how long pods stay on a node that is not ready or cannot
// be reached, where they do not say.
const tolerationSeconds = 300

// DefaultTolerationSeconds lets pods that say nothing of it stay for some time on
// a node that is not ready or cannot be reached.
type DefaultTolerationSeconds struct{ onCreateOrUpdate }

var _ admission.Mutator = DefaultTolerationSeconds{}

// Name implements admission.Plugin.
func (DefaultTolerationSeconds) Name() string { return "DefaultTolerationSeconds" }

// Mutate implements admission.Mutator.
func (DefaultTolerationSeconds) Mutate(_ context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil {
		return nil
	}
	for _, taint := range [...]string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !toleratesNoExecute(pod.Spec.Tolerations, taint) {
			seconds := int64(tolerationSeconds)
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
	return nil
}

// toleratesNoExecute reports whether tolerations say anything of a taint with the
// effect NoExecute. As in kube-apiserver their operators do not matter.
func toleratesNoExecute(tolerations []corev1.Toleration, taint string) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
