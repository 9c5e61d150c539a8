package policies

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// inNamespace returns the same namespace for every name.
type inNamespace struct{}

func (inNamespace) Get(context.Context, types.NamespacedName) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"kubernetes.io/metadata.name": "n"}}}, nil
}

func podResource() *rest.Resource {
	return &rest.Resource{GroupVersion: corev1.SchemeGroupVersion, Name: "pods", Namespaced: true, Version: &codec.Version{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), New: func() codec.Object { return &corev1.Pod{} },
	}}
}

func creation(r *rest.Resource) *admission.Attributes {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	container := corev1.Container{Image: "registry.example.com/app:1.2.3", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits},
		Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}}, Ports: []corev1.ContainerPort{{ContainerPort: 80}}}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", Labels: map[string]string{"app": "a", "owner": "b"}}}
	for n := range 3 {
		container.Name = fmt.Sprint("c", n)
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return &admission.Attributes{Request: admission.Request{
		Operation: admission.Create, Resource: r, Namespace: "n", Name: "p", User: &request.User{Name: "jane", Groups: []string{"a"}},
	}, Object: pod}
}

// addPolicy adds a policy for a resource, and a binding. If selected is false, the policy's namespace selector
// does not match the namespace of the request.
func addPolicy(p Validating, name, resource string, selected bool) {
	spec := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	spec.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}}},
	}}}
	if !selected {
		spec.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	}
	spec.Spec.Validations = []admissionregistrationv1.Validation{
		{Expression: "object.spec.containers.all(c, c.image.startsWith('registry.example.com/') && !c.image.endsWith(':latest'))"},
		{Expression: "'owner' in object.metadata.labels"},
		{Expression: "object.spec.containers.all(c, has(c.resources.limits) && 'memory' in c.resources.limits)"},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = name, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	p.update(func() {
		p.stored.policies[name], p.stored.bindings[name] = validatingDefinition(spec), validatingBinding(binding)
	})
}

// BenchmarkValidate measures the creation of a pod with three containers while there are 1,000 policies. Each
// policy has three validations and one binding.
func BenchmarkValidate(b *testing.B) {
	for name, add := range map[string]func(p Validating, n int){
		"none_match": func(p Validating, n int) { addPolicy(p, fmt.Sprint(n), fmt.Sprint("others", n%100), true) },
		"3_by_resource": func(p Validating, n int) {
			addPolicy(p, fmt.Sprint(n), map[bool]string{true: "pods", false: "secrets"}[n < 3], true)
		},
		"3_by_namespace": func(p Validating, n int) { addPolicy(p, fmt.Sprint(n), "pods", n < 3) },
	} {
		b.Run(name, func(b *testing.B) {
			p := NewValidating(&Config{Namespaces: inNamespace{}, Programs: new(policy.Programs), Logger: slog.New(slog.DiscardHandler)})
			for n := range 1000 {
				add(p, n)
			}
			r := podResource()
			a := creation(r)
			b.ReportAllocs()
			for b.Loop() {
				if name != "none_match" {
					a = creation(r) // results are cached per request
				}
				if err := p.Validate(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
