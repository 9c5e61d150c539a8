package plugin_test

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission/plugin"
)

func TestDefaultIngressClass(t *testing.T) {
	t.Parallel()
	class := func(name string, age int, value string) *networkingv1.IngressClass {
		return &networkingv1.IngressClass{ObjectMeta: classMeta(name, age, "ingressclass.kubernetes.io/is-default-class", value)}
	}
	type classes = stored[*networkingv1.IngressClass]
	for name, test := range map[string]struct {
		classes classes
		ingress networkingv1.Ingress
		want    string
	}{
		"no class":   {classes{class("a", 1, "false")}, networkingv1.Ingress{}, "-"},
		"the newest": {classes{class("a", 5, "true"), class("b", 3, "true")}, networkingv1.Ingress{}, "b"},
		"named":      {classes{class("a", 5, "true")}, networkingv1.Ingress{Spec: networkingv1.IngressSpec{IngressClassName: ptr("own")}}, "own"},
		"annotated": {classes{class("a", 5, "true")},
			networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/ingress.class": ""}}}, "-"},
	} {
		mutated(t, plugin.DefaultIngressClass{Classes: test.classes}, creating(resource("networking.k8s.io", "ingresses", ""), &test.ingress), "")
		got := "-"
		if named := test.ingress.Spec.IngressClassName; named != nil {
			got = *named
		}
		if got != test.want {
			t.Errorf("%s: class %q, want %q", name, got, test.want)
		}
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	mutated(t, plugin.DefaultIngressClass{Classes: broken[*networkingv1.IngressClass]{}}, creating(resource("networking.k8s.io", "ingresses", ""), ingress),
		`ingresses.networking.k8s.io "x" is forbidden: disk trouble`)
}
