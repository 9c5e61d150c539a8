package crds

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The schemas of large definitions are generated from Go types, as controller-gen does.

type schemaProps = apiextensionsv1.JSONSchemaProps

// collector is a kind that contains several pod specs.
type collector struct {
	Spec struct {
		Replicas       *int32                       `json:"replicas,omitempty"`
		Image          string                       `json:"image"`
		Template       corev1.PodTemplateSpec       `json:"template,omitempty"`
		Containers     []corev1.Container           `json:"containers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
		InitContainers []corev1.Container           `json:"initContainers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
		Volumes        []corev1.Volume              `json:"volumes,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
		Affinity       *corev1.Affinity             `json:"affinity,omitempty"`
		Claim          corev1.PersistentVolumeClaim `json:"claim,omitempty"`
		Extra          any                          `json:"extra,omitempty"`
	} `json:"spec"`
	Status struct {
		Replicas   int32              `json:"replicas,omitempty"`
		Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	} `json:"status,omitempty"`
}

// authority is a kind that contains a union of many sources.
type authority struct {
	Spec struct {
		Proofs []proof                   `json:"proofs"`
		Backup *corev1.SecretKeySelector `json:"backup,omitempty"`
	} `json:"spec"`
}

type proof struct {
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	Record   *proofByRecord        `json:"record,omitempty"`
	Page     *proofByPage          `json:"page,omitempty"`
}

type proofByPage struct {
	Service *struct {
		Type corev1.ServiceType `json:"type,omitempty"`
		Port intstr.IntOrString `json:"port,omitempty"`
		Pod  *proofPod          `json:"pod,omitempty"`
	} `json:"service,omitempty"`
	Route *struct {
		Labels map[string]string        `json:"labels,omitempty"`
		Parent []corev1.ObjectReference `json:"parents,omitempty"`
	} `json:"route,omitempty"`
}

type proofPod struct {
	Labels          map[string]string          `json:"labels,omitempty"`
	Affinity        *corev1.Affinity           `json:"affinity,omitempty"`
	Tolerations     []corev1.Toleration        `json:"tolerations,omitempty"`
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`
}

type proofByRecord struct {
	Follow string    `json:"follow,omitempty"`
	North  *recordAt `json:"north,omitempty"`
	South  *recordAt `json:"south,omitempty"`
	East   *recordAt `json:"east,omitempty"`
	West   *recordAt `json:"west,omitempty"`
	Other  *struct {
		Config any `json:"config,omitempty"`
	} `json:"other,omitempty"`
}

type recordAt struct {
	Zone   string                   `json:"zone"`
	Token  corev1.SecretKeySelector `json:"token"`
	Client *struct {
		ID     string                    `json:"id"`
		Secret *corev1.SecretKeySelector `json:"secret,omitempty"`
	} `json:"client,omitempty"`
}

func pointer[T any](v T) *T { return &v }

// schemaOf generates the schema of a Go type. Descriptions come from SwaggerDoc methods, if the type has one.
func schemaOf(t reflect.Type) schemaProps {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		props := schemaProps{XIntOrString: true, AnyOf: []schemaProps{{Type: "integer"}, {Type: "string"}}}
		if t == reflect.TypeFor[resource.Quantity]() {
			props.Pattern = `^[+-]?[0-9.]+([eE]?[+-]?[0-9]*|[numkMGTPE]i?)$`
		}
		return props
	case reflect.TypeFor[metav1.Time]():
		return schemaProps{Type: "string", Format: "date-time"}
	case reflect.TypeFor[metav1.ObjectMeta]():
		return schemaProps{Type: "object", XPreserveUnknownFields: pointer(true)}
	case reflect.TypeFor[metav1.FieldsV1]():
		return schemaProps{Type: "object"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Interface:
		return schemaProps{XPreserveUnknownFields: pointer(true)}
	case reflect.String:
		return schemaProps{Type: "string"}
	case reflect.Bool:
		return schemaProps{Type: "boolean"}
	case reflect.Int32:
		return schemaProps{Type: "integer", Format: "int32"}
	case reflect.Int64, reflect.Int:
		return schemaProps{Type: "integer", Format: "int64"}
	case reflect.Map:
		below := schemaOf(t.Elem())
		return schemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &below}}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return schemaProps{Type: "string", Format: "byte"}
		}
		below := schemaOf(t.Elem())
		return schemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &below}}
	case reflect.Struct:
		return structSchema(t)
	}
	panic(fmt.Sprintf("no schema for %v", t))
}

func structSchema(t reflect.Type) schemaProps {
	props := schemaProps{Type: "object", Properties: map[string]schemaProps{}}
	var docs map[string]string
	if documented, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		docs = documented.SwaggerDoc()
	}
	for field := range fieldsOf(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			inner := schemaOf(field.Type)
			for innerName, below := range inner.Properties {
				props.Properties[innerName] = below
			}
			props.Required = append(props.Required, inner.Required...)
			continue
		}
		below := schemaOf(field.Type)
		below.Description = docs[name]
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			keyed(&below, key)
		}
		props.Properties[name] = below
		if !strings.Contains(options, "omit") {
			props.Required = append(props.Required, name)
		}
	}
	return props
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// keyed makes a list a map list with the given key. If the key is optional, it gets a default value.
func keyed(list *schemaProps, key string) {
	keys := []string{key}
	items := list.Items.Schema
	if key == "containerPort" || key == "port" {
		if _, found := items.Properties["protocol"]; found {
			keys = append(keys, "protocol")
		}
	}
	for _, name := range keys {
		required := false
		for _, r := range items.Required {
			required = required || r == name
		}
		if !required {
			property := items.Properties[name]
			value := `""`
			if name == "protocol" {
				value = `"TCP"`
			}
			property.Default = &apiextensionsv1.JSON{Raw: []byte(value)}
			items.Properties[name] = property
		}
	}
	list.XListType, list.XListMapKeys = pointer("map"), keys
}

// drawn returns a definition whose schema is generated from a Go type.
func drawn(t testing.TB, group, kind string, of reflect.Type) *apiextensionsv1.CustomResourceDefinition {
	crd := define(t, group, kind, "{type: object}", withStatus)
	props := schemaOf(of)
	props.Properties["apiVersion"], props.Properties["kind"] = schemaProps{Type: "string"}, schemaProps{Type: "string"}
	props.Properties["metadata"] = schemaProps{Type: "object"}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &props
	crd.Spec.Names.Singular, crd.Spec.Names.ListKind = strings.ToLower(kind), kind+"List"
	return crd
}

func collectorSample(t *testing.T) sample {
	crd := drawn(t, "watch.example.org", "Collector", reflect.TypeFor[collector]())
	if size := len(encode(t, crd)); size < 300<<10 || size > 700<<10 {
		t.Errorf("the large definition has %d bytes", size)
	}
	return sample{crd: crd, objects: readObjects(t, []byte(collectorObjects))}
}

func authoritySample(t *testing.T) sample {
	crd := drawn(t, "trust.example.org", "Authority", reflect.TypeFor[authority]())
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	crd.Name, crd.Spec.Names.Plural = "authorities.trust.example.org", "authorities"
	if size := len(encode(t, crd)); size < 30<<10 {
		t.Errorf("the definition has %d bytes", size)
	}
	return sample{crd: crd, objects: readObjects(t, []byte(authorityObjects))}
}

const collectorObjects = `
name: pods within
object:
  apiVersion: watch.example.org/v1
  kind: Collector
  metadata: {name: full}
  spec:
    image: i
    replicas: 2
    template:
      metadata: {labels: {a: b}, creationTimestamp: null}
      spec:
        containers:
          - name: main
            image: i
            command: [sh, -c, "true"]
            ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]
            env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
            resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 1}}
            livenessProbe: {httpGet: {path: /, port: web}, periodSeconds: 5}
            unknown: dropped
        volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]
    containers: [{name: side, volumeMounts: [{name: v, mountPath: /v}]}]
    affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}}]}}
    extra: {any: [thing]}
becomes:
  spec:
    image: i
    replicas: 2
    template:
      metadata: {labels: {a: b}, creationTimestamp: null}
      spec:
        containers:
          - name: main
            image: i
            command: [sh, -c, "true"]
            ports: [{containerPort: 80, protocol: TCP}, {containerPort: 80, protocol: UDP}]
            env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
            resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 1}}
            livenessProbe: {httpGet: {path: /, port: web}, periodSeconds: 5}
        volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]
    containers: [{name: side, volumeMounts: [{name: v, mountPath: /v}]}]
    affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}}]}}
    extra: {any: [thing]}
warns: ['unknown field "spec.template.spec.containers[0].unknown"']
---
name: faults deep within
object:
  apiVersion: watch.example.org/v1
  kind: Collector
  metadata: {name: bad}
  spec:
    image: i
    template: {spec: {containers: [{name: a, ports: [{containerPort: web}], resources: {limits: {cpu: much}}}, {name: a}]}}
    containers: [{image: i}]
refused:
  - 'spec.containers[0].name: Required value'
  - 'spec.template.spec.containers[0].ports[0].containerPort: Invalid value: "string": spec.template.spec.containers[0].ports[0].containerPort in body must be of type integer: "string"'
  - 'spec.template.spec.containers[0].resources.limits.cpu: Invalid value: "much": spec.template.spec.containers[0].resources.limits.cpu in body should match ''^[+-]?[0-9.]+([eE]?[+-]?[0-9]*|[numkMGTPE]i?)$'''
  - 'spec.template.spec.containers[1]: Duplicate value: {"name":"a"}'
`

const authorityObjects = `
name: several ways
object:
  apiVersion: trust.example.org/v1
  kind: Authority
  metadata: {name: full}
  spec:
    proofs:
      - record: {follow: Always, north: {zone: a.example.org, token: {name: t, key: k}, client: {id: me, secret: {name: t, key: k}}}}
      - selector: {matchLabels: {a: b}}
        page: {service: {type: NodePort, port: 8080, pod: {tolerations: [{key: k, operator: Exists, tolerationSeconds: 5}], securityContext: {runAsNonRoot: true}}}}
      - record: {other: {config: {any: [{thing: null}]}}}
---
name: a way without what it needs
object:
  apiVersion: trust.example.org/v1
  kind: Authority
  metadata: {name: bad}
  spec: {proofs: [{record: {south: {token: {name: t}}}}, {page: {service: {port: [80]}}}]}
refused:
  - '<nil>: Invalid value: "": "spec.proofs[1].page.service.port" must validate at least one schema (anyOf)'
  - 'spec.proofs[1].page.service.port: Invalid value: "array": spec.proofs[1].page.service.port in body must be of type integer: "array"'
  - 'spec.proofs[0].record.south.zone: Required value'
  - 'spec.proofs[0].record.south.token.key: Required value'
  - 'spec.proofs[1].page.service.port: Invalid value: "array": spec.proofs[1].page.service.port in body must be of type integer,string: "array"'
`
