package networking

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// annotationIngressClass is the annotation that names the class of an ingress. The field ingressClassName has
// replaced it.
const annotationIngressClass = "kubernetes.io/ingress.class"

// ingressRatchet records which of the newer rules the stored ingress violates. Updates may continue to violate
// these rules.
type ingressRatchet struct{ secretNames, wildcardRules bool }

func validateIngress(f validation.Field, ingress, old *networkingv1.Ingress) {
	var ratchet ingressRatchet
	if old == nil {
		validateClassAnnotation(f.Child("annotations").Child(annotationIngressClass), ingress)
	} else {
		ratchet.secretNames = f.Violates(func(f validation.Field) { validateSecretNames(f, old.Spec.TLS) })
		ratchet.wildcardRules = f.Violates(func(f validation.Field) { validateWildcardRules(f, old.Spec.Rules) })
	}
	f, spec := f.Child("spec"), &ingress.Spec
	if len(spec.Rules) == 0 && spec.DefaultBackend == nil {
		f.Invalid(spec.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if spec.DefaultBackend != nil {
		validateBackend(f.Child("defaultBackend"), spec.DefaultBackend)
	}
	for i := range spec.Rules {
		validateIngressRule(f.Child("rules").Index(i), &spec.Rules[i], ratchet)
	}
	for i := range spec.TLS {
		for j, host := range spec.TLS[i].Hosts {
			validateHost(f.Child("tls").Index(i).Child("hosts").Index(j), host)
		}
	}
	if !ratchet.secretNames {
		validateSecretNames(f.Child("tls"), spec.TLS)
	}
	if spec.IngressClassName != nil {
		f.Child("ingressClassName").DNSSubdomain(*spec.IngressClassName)
	}
}

// validateClassAnnotation rejects a new ingress if its class annotation differs from its class field. As in
// kube-apiserver, the path in the error does not begin with metadata.
func validateClassAnnotation(f validation.Field, ingress *networkingv1.Ingress) {
	annotation, ok := ingress.Annotations[annotationIngressClass]
	if class := ingress.Spec.IngressClassName; ok && class != nil && annotation != *class {
		f.Invalid(annotation, "must match `ingressClassName` when both are specified")
	}
}

func validateSecretNames(f validation.Field, tls []networkingv1.IngressTLS) {
	for i := range tls {
		if name := tls[i].SecretName; name != "" {
			f.Index(i).Child("secretName").DNSSubdomain(name)
		}
	}
}

// validateHost requires a DNS name or a wildcard DNS name.
func validateHost(f validation.Field, host string) {
	if strings.Contains(host, "*") {
		f.WildcardSubdomain(host)
	} else {
		f.DNSSubdomain(host)
	}
}

func validateIngressRule(f validation.Field, rule *networkingv1.IngressRule, ratchet ingressRatchet) {
	if rule.Host != "" {
		validateNoIP(f.Child("host"), rule.Host)
		validateHost(f.Child("host"), rule.Host)
	}
	if !ratchet.wildcardRules || !strings.Contains(rule.Host, "*") {
		validateRuleValue(f, &rule.IngressRuleValue)
	}
}

// validateWildcardRules validates wildcard hosts. Stored ingresses may violate these rules, because the rules
// were added later.
func validateWildcardRules(f validation.Field, rules []networkingv1.IngressRule) {
	for i := range rules {
		if strings.Contains(rules[i].Host, "*") {
			validateRuleValue(f.Index(i), &rules[i].IngressRuleValue)
		}
	}
}

func validateRuleValue(f validation.Field, value *networkingv1.IngressRuleValue) {
	if value.HTTP == nil {
		return
	}
	f = f.Child("http").Child("paths")
	if len(value.HTTP.Paths) == 0 {
		f.Required("")
	}
	for i := range value.HTTP.Paths {
		validateHTTPPath(f.Index(i), &value.HTTP.Paths[i])
	}
}

func validateHTTPPath(f validation.Field, path *networkingv1.HTTPIngressPath) {
	if path.PathType == nil {
		f.Child("pathType").Required("pathType must be specified")
		return
	}
	switch kind := *path.PathType; kind {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		validateAbsolute(f.Child("path"), path.Path)
		validateNormalized(f.Child("path"), path.Path)
	case networkingv1.PathTypeImplementationSpecific:
		if path.Path != "" {
			validateAbsolute(f.Child("path"), path.Path)
		}
	default:
		validation.NotSupported(f.Child("pathType"), kind,
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)
	}
	validateBackend(f.Child("backend"), &path.Backend)
}

func validateAbsolute(f validation.Field, path string) {
	if !strings.HasPrefix(path, "/") {
		f.Invalid(path, "must be an absolute path")
	}
}

// validateNormalized rejects paths that proxies normalize before they match them.
func validateNormalized(f validation.Field, path string) {
	for _, part := range [...]string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(path, part) {
			f.Invalid(path, fmt.Sprintf("must not contain '%s'", part))
		}
	}
	for _, end := range [...]string{"/..", "/."} {
		if strings.HasSuffix(path, end) {
			f.Invalid(path, fmt.Sprintf("cannot end with '%s'", end))
		}
	}
}

func validateBackend(f validation.Field, backend *networkingv1.IngressBackend) {
	switch service, resource := backend.Service, backend.Resource; {
	case service != nil && resource != nil:
		f.Invalid("", "cannot set both resource and service backends")
	case resource != nil:
		validateBackendResource(f.Child("resource"), resource)
	case service != nil:
		at := f.Child("service").Child("name")
		if service.Name == "" {
			at.Required("")
		} else {
			at.DNSLabel(service.Name)
		}
		validateBackendPort(f, &service.Port)
	default:
		f.Invalid("", "resource or service backend is required")
	}
}

func validateBackendResource(f validation.Field, ref *corev1.TypedLocalObjectReference) {
	if ref.APIGroup != nil {
		f.Child("apiGroup").DNSSubdomain(*ref.APIGroup)
	}
	f.Child("kind").RequiredPathSegment(ref.Kind)
	f.Child("name").RequiredPathSegment(ref.Name)
}

// validateBackendPort validates the port of a backend. f is the path of the backend. As in kube-apiserver, some
// errors are reported for the backend instead of the port.
func validateBackendPort(f validation.Field, port *networkingv1.ServiceBackendPort) {
	switch at := f.Child("service").Child("port"); {
	case port.Name != "" && port.Number != 0:
		f.Invalid("", "cannot set both port name & port number")
	case port.Name != "":
		at.Child("name").PortName(port.Name)
	case port.Number != 0:
		at.Child("number").PortNumber(port.Number)
	default:
		f.Required("port name or number is required")
	}
}

func validateIngressStatus(f validation.Field, ingress, old *networkingv1.Ingress) {
	f = f.Child("status").Child("loadBalancer").Child("ingress")
	var before []string
	for i := range old.Status.LoadBalancer.Ingress {
		before = append(before, old.Status.LoadBalancer.Ingress[i].IP)
	}
	for i := range ingress.Status.LoadBalancer.Ingress {
		point, at := &ingress.Status.LoadBalancer.Ingress[i], f.Index(i)
		if point.IP != "" {
			at.Child("ip").IP(point.IP, before...)
		}
		if point.Hostname != "" {
			at.Child("hostname").DNSSubdomain(point.Hostname)
			validateNoIP(at.Child("hostname"), point.Hostname)
		}
	}
}

// validateNoIP rejects IP addresses in any format. IPv4 addresses are syntactically valid DNS
// names.
func validateNoIP(f validation.Field, name string) {
	if strings.Trim(name, "0123456789.") != "" && !strings.Contains(name, ":") {
		return
	}
	if len(apivalidation.IsValidIPForLegacyField(nil, name, false, nil)) == 0 {
		f.Invalid(name, "must be a DNS name, not an IP address")
	}
}
