package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission"
)

// tolerationSeconds is the default number of seconds for which pods tolerate a node that is not ready or
// unreachable.
const tolerationSeconds = 300

// DefaultTolerationSeconds adds tolerations for nodes that are not ready or unreachable to pods that lack them.
type DefaultTolerationSeconds struct {
	onCreateOrUpdate
	// NotReady and Unreachable are the durations of the tolerations, in seconds; nil selects 300.
	NotReady, Unreachable *int64
}

var _ admission.Mutator = DefaultTolerationSeconds{}

func defaultTolerationSecondsPlugin() Registration {
	return Registration{
		Name: DefaultTolerationSeconds{}.Name(), Description: "adds tolerations to pods for nodes that are not ready or unreachable",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return DefaultTolerationSeconds{NotReady: d.NotReadyTolerationSeconds, Unreachable: d.UnreachableTolerationSeconds}
		},
	}
}

// Name implements admission.Plugin.
func (DefaultTolerationSeconds) Name() string { return "DefaultTolerationSeconds" }

// Mutate implements admission.Mutator.
func (p DefaultTolerationSeconds) Mutate(_ context.Context, a *admission.Attributes) error {
	pod := objectOf[corev1.Pod](a, "", "pods")
	if pod == nil {
		return nil
	}
	for _, taint := range [...]struct {
		key     string
		seconds *int64
	}{{corev1.TaintNodeNotReady, p.NotReady}, {corev1.TaintNodeUnreachable, p.Unreachable}} {
		if !toleratesNoExecute(pod.Spec.Tolerations, taint.key) {
			seconds := int64(tolerationSeconds)
			if taint.seconds != nil {
				seconds = *taint.seconds
			}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: taint.key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
	return nil
}

// toleratesNoExecute reports whether one of the tolerations matches a taint with the given key and the effect
// NoExecute. As in kube-apiserver, it ignores operators and values.
func toleratesNoExecute(tolerations []corev1.Toleration, taint string) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
