package plugin

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"

	"mainstay.dev/mainstay/internal/admission"
)

// ingressClassAnnotation is the annotation that selected the class of an ingress before spec.ingressClassName
// was introduced.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// DefaultIngressClass sets the default class of new ingresses that specify no class.
type DefaultIngressClass struct {
	onCreate
	Classes Lister[*networkingv1.IngressClass]
}

var _ admission.Mutator = DefaultIngressClass{}

func defaultIngressClassPlugin() Registration {
	return Registration{
		Name: DefaultIngressClass{}.Name(), Description: "sets the default class of ingresses",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return DefaultIngressClass{Classes: cached[*networkingv1.IngressClass](d, networkingv1.SchemeGroupVersion, "ingressclasses")}
		},
	}
}

// Name implements admission.Plugin.
func (DefaultIngressClass) Name() string { return "DefaultIngressClass" }

// Mutate implements admission.Mutator.
func (p DefaultIngressClass) Mutate(ctx context.Context, a *admission.Attributes) error {
	ingress := objectOf[networkingv1.Ingress](a, networkingv1.GroupName, "ingresses")
	if ingress == nil || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, named := ingress.Annotations[ingressClassAnnotation]; named {
		return nil
	}
	class, ok, err := newestDefault(ctx, p.Classes, isDefaultIngressClass)
	if err != nil {
		return reject(a, err)
	}
	if ok {
		name := class.Name
		ingress.Spec.IngressClassName = &name
	}
	return nil
}

func isDefaultIngressClass(annotations map[string]string) bool {
	return annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
}
