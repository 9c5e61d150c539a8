package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateReplicationController(f validation.Field, rc, old *corev1.ReplicationController) {
	f, spec := f.Child("spec"), &rc.Spec
	f.Child("minReadySeconds").NonNegative(int64(spec.MinReadySeconds))
	if len(spec.Selector) == 0 {
		f.Child("selector").Required("")
	}
	if spec.Replicas == nil {
		f.Child("replicas").Required("")
	} else {
		f.Child("replicas").NonNegative(int64(*spec.Replicas))
	}
	at := f.Child("template")
	if spec.Template == nil {
		at.Required("")
		return
	}
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = old.Spec.Template
	}
	podspec.ValidateTemplateLabels(at, labels.SelectorFromSet(spec.Selector), spec.Template)
	podspec.ValidateTemplate(at, spec.Template, before)
	podspec.ValidateRestartAlways(at, spec.Template, "ReplicationController")
}

func validateReplicationControllerStatus(f validation.Field, rc, _ *corev1.ReplicationController) {
	f, s := f.Child("status"), &rc.Status
	for _, counter := range [...]struct {
		name string
		n    int32
	}{
		{"replicas", s.Replicas}, {"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas},
		{"availableReplicas", s.AvailableReplicas},
	} {
		f.Child(counter.name).NonNegative(int64(counter.n))
		if counter.n > s.Replicas {
			f.Child(counter.name).Invalid(counter.n, "cannot be greater than status.replicas")
		}
	}
	f.Child("observedGeneration").NonNegative(s.ObservedGeneration)
	if s.AvailableReplicas > s.ReadyReplicas {
		f.Child("availableReplicas").Invalid(s.AvailableReplicas, "cannot be greater than readyReplicas")
	}
}

func validatePodTemplate(f validation.Field, template, old *corev1.PodTemplate) {
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Template
	}
	podspec.ValidateTemplate(f.Child("template"), &template.Template, before)
}

// validateReplicationControllerName accepts every generateName. As in kube-apiserver, only the generated name
// is validated, unlike for most kinds.
func validateReplicationControllerName(name string, prefix bool) []string {
	if prefix {
		return nil
	}
	return content.IsDNS1123Subdomain(name)
}

func replicationControllerWarnings(op *builtin.Operation, rc, old *corev1.ReplicationController) []string {
	warnings := builtin.PodNameWarnings(op, rc, old)
	if rc.Spec.Template == nil {
		return warnings
	}
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = old.Spec.Template
	}
	return append(warnings, podspec.TemplateWarnings("spec.template.spec", rc.Spec.Template, before)...)
}

func podTemplateWarnings(_ *builtin.Operation, template, old *corev1.PodTemplate) []string {
	var before *corev1.PodTemplateSpec
	if old != nil {
		before = &old.Template
	}
	return podspec.TemplateWarnings("template.spec", &template.Template, before)
}
