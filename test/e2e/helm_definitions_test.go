package e2e

import (
	"maps"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// These are the kinds of a monitoring stack. Definitions are generated from the types. A definition with a pod
// template has 210 KiB, like the definitions of real operators.
type (
	monitorSpec struct {
		JobLabel          string               `json:"jobLabel,omitempty"`
		Selector          metav1.LabelSelector `json:"selector"`
		NamespaceSelector namespaceSelector    `json:"namespaceSelector,omitempty"`
		Endpoints         []endpoint           `json:"endpoints"`
		SampleLimit       *int64               `json:"sampleLimit,omitempty"`
	}
	namespaceSelector struct {
		Any        bool     `json:"any,omitempty"`
		MatchNames []string `json:"matchNames,omitempty"`
	}
	endpoint struct {
		Port          string              `json:"port,omitempty"`
		TargetPort    *intstr.IntOrString `json:"targetPort,omitempty"`
		Path          string              `json:"path,omitempty"`
		Scheme        string              `json:"scheme,omitempty"`
		Interval      string              `json:"interval,omitempty"`
		Params        map[string][]string `json:"params,omitempty"`
		TLSConfig     *tlsConfig          `json:"tlsConfig,omitempty"`
		Relabelings   []relabeling        `json:"relabelings,omitempty"`
		Authorization *authorization      `json:"authorization,omitempty"`
	}
	tlsConfig struct {
		InsecureSkipVerify bool                      `json:"insecureSkipVerify,omitempty"`
		ServerName         string                    `json:"serverName,omitempty"`
		CA                 *corev1.SecretKeySelector `json:"ca,omitempty"`
	}
	authorization struct {
		Type        string                    `json:"type,omitempty"`
		Credentials *corev1.SecretKeySelector `json:"credentials,omitempty"`
	}
	relabeling struct {
		Action       string   `json:"action,omitempty"`
		SourceLabels []string `json:"sourceLabels,omitempty"`
		TargetLabel  string   `json:"targetLabel,omitempty"`
		Regex        string   `json:"regex,omitempty"`
	}
	ruleSpec struct {
		Groups []ruleGroup `json:"groups,omitempty"`
	}
	ruleGroup struct {
		Name     string     `json:"name"`
		Interval string     `json:"interval,omitempty"`
		Rules    []ruleLine `json:"rules,omitempty"`
	}
	ruleLine struct {
		Alert       string             `json:"alert,omitempty"`
		Record      string             `json:"record,omitempty"`
		Expr        intstr.IntOrString `json:"expr"`
		For         string             `json:"for,omitempty"`
		Labels      map[string]string  `json:"labels,omitempty"`
		Annotations map[string]string  `json:"annotations,omitempty"`
	}
	programSpec struct {
		Replicas            *int32                        `json:"replicas,omitempty"`
		Retention           string                        `json:"retention,omitempty"`
		ConfigSecret        string                        `json:"configSecret,omitempty"`
		RuleSelector        *metav1.LabelSelector         `json:"ruleSelector,omitempty"`
		VolumeClaimTemplate *corev1.PersistentVolumeClaim `json:"volumeClaimTemplate,omitempty"`
		Template            corev1.PodTemplateSpec        `json:"template"`
	}
	configSpec struct {
		Route     map[string]string `json:"route,omitempty"`
		Receivers []string          `json:"receivers,omitempty"`
	}
)

var stackKinds = map[string]any{
	"ServiceMonitor": monitorSpec{}, "PodMonitor": monitorSpec{}, "Probe": monitorSpec{}, "ScrapeConfig": monitorSpec{},
	"Rule": ruleSpec{}, "RouterConfig": configSpec{},
	"Collector": programSpec{}, "Agent": programSpec{}, "Router": programSpec{}, "Ruler": programSpec{},
}

// definitionOf returns the definition of a kind. spec is a value of the Go type from which the schema of the
// spec is generated.
func definitionOf(kind string, spec any) map[string]any {
	plural := strings.ToLower(kind) + "s"
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".monitoring.example.com"},
		"spec": map[string]any{
			"group": "monitoring.example.com", "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": plural, "categories": []any{"monitoring"}},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "required": []any{"spec"}, "properties": map[string]any{
						"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "metadata": map[string]any{"type": "object"},
						"spec":   schemaOf(reflect.TypeOf(spec)),
						"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					},
				}},
			}},
		},
	}
}

// fieldDescription is the description of every field. Generated definitions consist mostly of descriptions.
const fieldDescription = "Says what the program does, and when it may be left out. More info: https://docs.example.com/monitoring#fields"

// schemaOf returns the schema that controller-gen would generate for a type that has no markers.
func schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		return map[string]any{"x-kubernetes-int-or-string": true, "anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}}
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return map[string]any{"type": "string", "format": "date-time", "nullable": true}
	case reflect.TypeFor[metav1.FieldsV1]():
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		return map[string]any{"type": "object", "properties": propertiesOf(t)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer", "format": "int64"}
	}
	return map[string]any{"type": "string"}
}

func propertiesOf(t reflect.Type) map[string]any {
	properties := map[string]any{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // inline
			maps.Copy(properties, propertiesOf(field.Type))
			continue
		}
		property := schemaOf(field.Type)
		property["description"] = fieldDescription
		properties[name] = property
	}
	return properties
}
