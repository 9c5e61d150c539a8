package plugin

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/admission/podsecurity"
	"mainstay.dev/mainstay/internal/request"
)

// Keys of PodSecurity's audit annotations.
const (
	enforcedPolicy  = podsecurity.LabelPrefix + "enforce-policy"
	auditViolations = podsecurity.LabelPrefix + "audit-violations"
	exemptReason    = podsecurity.LabelPrefix + "exempt"
	podSecurityFail = podsecurity.LabelPrefix + "error"
)

// PodSecurity enforces the Pod Security Standards. Depending on the labels of the namespace, it rejects pods,
// adds audit annotations, or returns warnings. It never rejects objects with pod templates.
type PodSecurity struct {
	onCreateOrUpdate
	Standards  *podsecurity.Standards
	Config     config.PodSecurity
	Namespaces Getter[*corev1.Namespace]
	Pods       Lister[*corev1.Pod]
	Metrics    *PodSecurityMetrics
}

var _ admission.Validator = PodSecurity{}

func podSecurityPlugin() Registration {
	return Registration{
		Name: PodSecurity{}.Name(), Description: "enforces, audits and warns about the Pod Security Standards of the namespace",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return PodSecurity{
				Standards: podsecurity.AllVersions(), Config: d.Config.PodSecurity, Metrics: d.PodSecurityMetrics,
				Namespaces: d.namespaces(), Pods: client[*corev1.Pod](d, corev1.SchemeGroupVersion, "pods"),
			}
		},
	}
}

// Name implements admission.Plugin.
func (PodSecurity) Name() string { return "PodSecurity" }

// Validate implements admission.Validator.
func (p PodSecurity) Validate(ctx context.Context, a *admission.Attributes) error {
	switch obj := a.Object.(type) {
	case *corev1.Pod:
		if a.Resource.Subresource != "status" {
			return p.validatePod(ctx, a, obj)
		}
	case *corev1.Namespace:
		if a.Resource.Subresource == "" {
			return p.validateNamespace(ctx, a, obj)
		}
	default:
		if template := templateOf(a.Object); template != nil && a.Resource.Subresource == "" {
			p.evaluateTemplate(ctx, a, template)
		}
	}
	return nil
}

// templateOf returns the pod template of an object, or nil if the object has none.
func templateOf(obj runtime.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *corev1.PodTemplate:
		return &o.Template
	case *corev1.ReplicationController:
		return o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

func (p PodSecurity) validatePod(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) error {
	if p.isExempt(ctx, a) {
		return nil
	}
	policy, faults, err := p.policy(ctx, a)
	if err != nil {
		p.Metrics.countError(a, true)
		annotate(ctx, a, podSecurityFail, fmt.Sprintf("Internal error occurred: failed to lookup namespace %s: %v", a.Namespace, err))
		return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %s", a.Namespace))
	}
	if len(faults) == 0 && policy.Enforce.Level == podsecurity.Privileged && policy.Warn.Level == podsecurity.Privileged && policy.Audit.Level == podsecurity.Privileged {
		p.Metrics.countEvaluation(a, allowed, enforceMode, policy.Enforce)
		annotate(ctx, a, enforcedPolicy, "privileged:latest")
		return nil
	}
	if old := oldOf[corev1.Pod](a); old != nil && !isSignificantUpdate(pod, old) {
		return nil
	}
	e := podEvaluation{plugin: p, a: a, policy: policy, pod: podsecurity.Pod{Annotations: pod.Annotations, Spec: &pod.Spec}}
	return e.run(ctx, faults, true)
}

// evaluateTemplate adds warnings and audit annotations for a template. It records errors but never rejects the
// request.
func (p PodSecurity) evaluateTemplate(ctx context.Context, a *admission.Attributes, template *corev1.PodTemplateSpec) {
	if p.isExempt(ctx, a) {
		return
	}
	policy, faults, err := p.policy(ctx, a)
	if err != nil {
		p.Metrics.countError(a, true)
		annotate(ctx, a, podSecurityFail, fmt.Sprintf("failed to lookup namespace %s: %v", a.Namespace, err))
		return
	}
	if len(faults) == 0 && policy.Warn.Level == podsecurity.Privileged && policy.Audit.Level == podsecurity.Privileged {
		return
	}
	e := podEvaluation{plugin: p, a: a, policy: policy, pod: podsecurity.Pod{Annotations: template.Annotations, Spec: &template.Spec}}
	_ = e.run(ctx, faults, false) // only the mode enforce rejects
}

// isExempt reports whether the namespace or the user of a request is exempt. If so, it counts the exemption.
func (p PodSecurity) isExempt(ctx context.Context, a *admission.Attributes) bool {
	reason := ""
	switch exempt := &p.Config.Exemptions; {
	case slices.Contains(exempt.Namespaces, a.Namespace):
		reason = "namespace"
	case a.User != nil && slices.Contains(exempt.Usernames, a.User.Name):
		reason = "user"
	default:
		return false
	}
	p.Metrics.countExemption(a)
	annotate(ctx, a, exemptReason, reason)
	return true
}

// isExemptClass reports whether the pods of a runtime class are exempt.
func (p PodSecurity) isExemptClass(spec *corev1.PodSpec) bool {
	return spec.RuntimeClassName != nil && *spec.RuntimeClassName != "" && slices.Contains(p.Config.Exemptions.RuntimeClasses, *spec.RuntimeClassName)
}

// policy returns the policy of the request's namespace, and the errors in its labels.
func (p PodSecurity) policy(ctx context.Context, a *admission.Attributes) (podsecurity.Policy, field.ErrorList, error) {
	namespace, err := p.Namespaces.Get(ctx, types.NamespacedName{Name: a.Namespace})
	if err != nil {
		return podsecurity.Policy{}, nil, err
	}
	policy, faults := p.Config.Defaults.With(namespace.Labels)
	return policy, faults, nil
}

// annotate adds an audit annotation. It ignores errors, such as too many annotations.
func annotate(ctx context.Context, a *admission.Attributes, key, value string) {
	_ = a.Annotate(ctx, key, value)
}

// podEvaluation evaluates one pod against a policy.
type podEvaluation struct {
	plugin PodSecurity
	a      *admission.Attributes
	policy podsecurity.Policy
	pod    podsecurity.Pod
	// cache contains the results by level, because several modes of a policy often have the same level. count
	// is the number of results.
	cache [3]podResult
	count int
}

type podResult struct {
	level      podsecurity.LevelVersion
	violations podsecurity.Violations
}

// evaluate returns the pod's violations of a level.
func (e *podEvaluation) evaluate(level podsecurity.LevelVersion) podsecurity.Violations {
	for i := range e.cache[:e.count] {
		if e.cache[i].level == level {
			return e.cache[i].violations
		}
	}
	violations := e.plugin.Standards.Evaluate(level, e.pod)
	e.cache[e.count] = podResult{level, violations}
	e.count++
	return violations
}

// run evaluates the pod in all modes of the policy. It returns an error only if enforce is true and the pod
// violates the enforced level.
func (e *podEvaluation) run(ctx context.Context, faults field.ErrorList, enforce bool) error {
	p, a := e.plugin, e.a
	if p.isExemptClass(e.pod.Spec) {
		p.Metrics.countExemption(a)
		annotate(ctx, a, exemptReason, "runtimeClass")
		return nil
	}
	if len(faults) > 0 {
		p.Metrics.countError(a, false)
		annotate(ctx, a, podSecurityFail, fmt.Sprintf("Failed to parse policy: %v", faults.ToAggregate()))
	}
	var enforced podsecurity.Violations
	if enforce {
		enforced = e.enforce(ctx)
	}
	if audited := e.evaluate(e.policy.Audit); len(audited) > 0 {
		p.Metrics.countEvaluation(a, denied, auditMode, e.policy.Audit)
		annotate(ctx, a, auditViolations, wouldViolate(e.policy.Audit, audited))
	}
	if len(enforced) > 0 {
		return reject(a, fmt.Errorf("violates PodSecurity %q: %s", e.policy.Enforce, enforced))
	}
	if warned := e.evaluate(e.policy.Warn); len(warned) > 0 {
		p.Metrics.countEvaluation(a, denied, warnMode, e.policy.Warn)
		request.AddWarning(ctx, wouldViolate(e.policy.Warn, warned))
	}
	return nil
}

func (e *podEvaluation) enforce(ctx context.Context) podsecurity.Violations {
	annotate(ctx, e.a, enforcedPolicy, e.policy.Enforce.String())
	violations := e.evaluate(e.policy.Enforce)
	decision := allowed
	if len(violations) > 0 {
		decision = denied
	}
	e.plugin.Metrics.countEvaluation(e.a, decision, enforceMode, e.policy.Enforce)
	return violations
}

func wouldViolate(level podsecurity.LevelVersion, violations podsecurity.Violations) string {
	return fmt.Sprintf("would violate PodSecurity %q: %s", level, violations)
}

// isSignificantUpdate reports whether an update changes fields on which the standards depend. Of these fields,
// only the images, the seccomp annotations and the list of ephemeral containers are mutable.
func isSignificantUpdate(pod, old *corev1.Pod) bool {
	if pod.Annotations[corev1.SeccompPodAnnotationKey] != old.Annotations[corev1.SeccompPodAnnotationKey] ||
		len(pod.Spec.Containers) != len(old.Spec.Containers) || len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return true
	}
	changed := func(name, image, oldImage string) bool {
		key := corev1.SeccompContainerAnnotationKeyPrefix + name
		return image != oldImage || pod.Annotations[key] != old.Annotations[key]
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; changed(c.Name, c.Image, old.Spec.Containers[i].Image) {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; changed(c.Name, c.Image, old.Spec.InitContainers[i].Image) {
			return true
		}
	}
	images := make(map[string]string, len(old.Spec.EphemeralContainers)) // by name
	for i := range old.Spec.EphemeralContainers {
		images[old.Spec.EphemeralContainers[i].Name] = old.Spec.EphemeralContainers[i].Image
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if image, ok := images[c.Name]; !ok || changed(c.Name, c.Image, image) {
			return true
		}
	}
	return false
}
