package controlplane

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	registration       = "/apis/admissionregistration.k8s.io/v1/"
	validatingPolicies = registration + "validatingadmissionpolicies"
	validatingBindings = registration + "validatingadmissionpolicybindings"
	mutatingPolicies   = registration + "mutatingadmissionpolicies"
	mutatingBindings   = registration + "mutatingadmissionpolicybindings"
	configMapsPath     = "/api/v1/namespaces/default/configmaps"
)

// jsonOf converts YAML to JSON.
func jsonOf(t testing.TB, text string) string {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return string(body)
}

// policyBody returns a policy for the creation and update of ConfigMaps. spec contains additional fields in
// YAML flow style; it may contain other matchConstraints.
func policyBody(t testing.TB, name, spec string) string {
	if !strings.Contains(spec, "matchConstraints") {
		spec = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}, ` + spec
	}
	return jsonOf(t, fmt.Sprintf("metadata: {name: %s}\nspec: {%s}", name, spec))
}

func bound(t testing.TB, name, policy, spec string) string {
	return jsonOf(t, fmt.Sprintf("metadata: {name: %s}\nspec: {policyName: %s, %s}", name, policy, spec))
}

func configMap(name, rest string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q}%s}`, name, rest)
}

const denies = "validationActions: [Deny]"

// TestPoliciesInEffect checks that writes of policies, bindings and parameters have taken effect by the time
// they return.
func TestPoliciesInEffect(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	for n := range 10 {
		name := fmt.Sprint("p", n)
		as(t, c, "admin", "POST", configMapsPath, configMap("params"+name, `,"data":{"word":"a"}`), 201, "")
		as(t, c, "admin", "POST", validatingPolicies, policyBody(t, name, `paramKind: {apiVersion: v1, kind: ConfigMap},
			validations: [{expression: "!object.metadata.name.startsWith('x') || object.data.word == params.data.word", messageExpression: "'say ' + params.data.word"}]`), 201, "")
		as(t, c, "admin", "POST", configMapsPath, configMap("x", ""), 201, "")
		as(t, c, "admin", "DELETE", configMapsPath+"/x", "", 200, "")
		as(t, c, "admin", "POST", validatingBindings, bound(t, name, name, denies+", paramRef: {name: params"+name+", parameterNotFoundAction: Deny}"), 201, "")
		as(t, c, "admin", "POST", configMapsPath, configMap("x", `,"data":{"word":"b"}`), 422, "denied request: say a")
		as(t, c, "admin", "PATCH", configMapsPath+"/params"+name, `{"data":{"word":"b"}}`, 200, "")
		as(t, c, "admin", "POST", configMapsPath+"?dryRun=All", configMap("x", `,"data":{"word":"a"}`), 422, "say b")
		as(t, c, "admin", "POST", configMapsPath, configMap("x", `,"data":{"word":"b"}`), 201, "")
		as(t, c, "admin", "DELETE", configMapsPath+"/x", "", 200, "") // the policy does not apply to deletions
		as(t, c, "admin", "DELETE", configMapsPath+"/params"+name, "", 200, "")
		as(t, c, "admin", "POST", configMapsPath, configMap("y", ""), 422, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
		as(t, c, "admin", "DELETE", validatingBindings+"/"+name, "", 200, "")
		as(t, c, "admin", "POST", configMapsPath+"?dryRun=All", configMap("x", ""), 201, "")
		as(t, c, "admin", "DELETE", validatingPolicies+"/"+name, "", 200, "")
	}
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: limits, singular: limit, kind: Limit}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      max: {type: integer}, tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}, plain: {type: array, items: {type: string}}, other: {type: string, default: x}}}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`

// define creates the definition, and waits until its resources are served.
func define(t *testing.T, c *ControlPlane) {
	t.Helper()
	as(t, c, "admin", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", jsonOf(t, definition), 201, "")
	for t.Context().Err() == nil && !strings.Contains(body(t, c, "GET", "/apis/example.com/v1/limits", ""), "LimitList") {
		runtime.Gosched()
	}
}

// TestPolicyParams checks parameters of built-in and custom kinds, selected by name or by labels, in the
// namespace of the request or in a fixed namespace.
func TestPolicyParams(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	const limits = "/apis/example.com/v1/namespaces/default/limits"
	as(t, c, "admin", "POST", validatingPolicies, policyBody(t, "early", `paramKind: {apiVersion: example.com/v1, kind: Limit}, validations: [{expression: "object.data.size() <= params.spec.max"}]`), 201, "")
	as(t, c, "admin", "POST", validatingBindings, bound(t, "early", "early", denies+", paramRef: {selector: {matchLabels: {for: data}}, parameterNotFoundAction: Allow}"), 201, "")
	as(t, c, "admin", "POST", configMapsPath, configMap("a", ""), 422, "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'")
	define(t, c)
	as(t, c, "admin", "POST", configMapsPath, configMap("a", `,"data":{"a":"","b":""}`), 201, "")
	as(t, c, "admin", "POST", limits, `{"apiVersion":"example.com/v1","kind":"Limit","metadata":{"name":"one","labels":{"for":"data"}},"spec":{"max":1}}`, 201, "")
	as(t, c, "admin", "POST", configMapsPath, configMap("b", `,"data":{"a":"","b":""}`), 422, `failed expression: object.data.size() \u003c= params.spec.max`)
	as(t, c, "admin", "POST", "/api/v1/namespaces/kube-system/configmaps", configMap("b", `,"data":{"a":"","b":""}`), 201, "") // no parameters there
	as(t, c, "admin", "PATCH", validatingBindings+"/early", `{"spec":{"paramRef":{"namespace":"default"}}}`, 200, "")
	as(t, c, "admin", "POST", "/api/v1/namespaces/kube-system/configmaps", configMap("c", `,"data":{"a":"","b":""}`), 422, "failed expression")
	as(t, c, "admin", "PATCH", limits+"/one", `{"spec":{"max":2}}`, 200, "")
	as(t, c, "admin", "POST", configMapsPath, configMap("b", `,"data":{"a":"","b":""}`), 201, "")

	as(t, c, "admin", "POST", validatingPolicies, policyBody(t, "wide", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [namespaces, nodes]}]},
		paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "params != null"}]`), 201, "")
	as(t, c, "admin", "POST", validatingBindings, bound(t, "wide", "wide", denies+", paramRef: {name: a, parameterNotFoundAction: Deny}"), 201, "")
	as(t, c, "admin", "POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`, 422, "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	as(t, c, "admin", "PATCH", validatingPolicies+"/wide", `{"spec":{"failurePolicy":"Ignore"}}`, 200, "")
	as(t, c, "admin", "POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`, 201, "")
	as(t, c, "admin", "PATCH", validatingPolicies+"/wide", `{"spec":{"failurePolicy":"Fail","paramKind":{"apiVersion":"v1","kind":"Node"}}}`, 200, "")
	as(t, c, "admin", "PATCH", validatingBindings+"/wide", `{"spec":{"paramRef":{"name":"n","namespace":"default"}}}`, 200, "")
	as(t, c, "admin", "POST", "/api/v1/nodes", `{"metadata":{"name":"m"}}`, 422, "paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	as(t, c, "admin", "PATCH", validatingBindings+"/wide", `{"spec":{"paramRef":null}}`, 200, "")
	as(t, c, "admin", "POST", "/api/v1/nodes", `{"metadata":{"name":"m"}}`, 422, "failed expression: params != null")
	as(t, c, "admin", "PATCH", validatingBindings+"/wide", `{"spec":{"paramRef":{"name":"n","parameterNotFoundAction":"Deny"}}}`, 200, "")
	as(t, c, "admin", "POST", "/api/v1/nodes", `{"metadata":{"name":"m"}}`, 201, "")
}

// TestPolicyOperations checks that policies apply to deletions, connections, subresources and
// custom resources, and never to policies and bindings.
func TestPolicyOperations(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	define(t, c)
	as(t, c, "admin", "POST", configMapsPath, configMap("kept", `,"data":{"a":"b"}`), 201, "")
	as(t, c, "admin", "POST", "/apis/apps/v1/namespaces/default/deployments", jsonOf(t, `{metadata: {name: d}, spec: {replicas: 1, selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`), 201, "")
	as(t, c, "admin", "POST", validatingPolicies, policyBody(t, "all", `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}],
		excludeResourceRules: [{apiGroups: [rbac.authorization.k8s.io], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]},
		validations: [{expression: "request.userInfo.username == 'admin' && !(request.name in ['fine'])", reason: Forbidden,
		messageExpression: "request.operation + ' ' + request.resource.resource + (has(request.subResource) ? '/' + request.subResource : '') + ' ' + request.kind.kind + ' ' + request.name + ' ' + string(request.dryRun) + (object == null ? ' gone' : '') + (oldObject == null ? ' new' : '')"}]`), 201, "")
	as(t, c, "admin", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", jsonOf(t, `{metadata: {name: jane}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]}`), 201, "")
	as(t, c, "admin", "POST", validatingBindings, bound(t, "all", "all", denies), 201, "")
	as(t, c, "jane", "POST", configMapsPath, configMap("x", ""), 403, "denied request: CREATE configmaps ConfigMap x false new")
	as(t, c, "jane", "PATCH", configMapsPath+"/kept?dryRun=All", `{"data":{"a":"c"}}`, 403, "UPDATE configmaps ConfigMap kept true\"")
	as(t, c, "jane", "DELETE", configMapsPath+"/kept", "", 403, "DELETE configmaps ConfigMap kept false gone")
	as(t, c, "jane", "DELETE", configMapsPath, "", 403, "failed expression: request.userInfo") // the message expression fails without a name
	as(t, c, "jane", "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", `{"spec":{"replicas":2}}`, 403, "UPDATE deployments/scale Scale d")
	as(t, c, "jane", "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/status", `{"status":{"replicas":2}}`, 403, "UPDATE deployments/status Deployment d")
	as(t, c, "jane", "POST", "/apis/example.com/v2/namespaces/default/limits", `{"apiVersion":"example.com/v2","kind":"Limit","metadata":{"name":"one"}}`, 403, "CREATE limits Limit one")
	as(t, c, "admin", "POST", configMapsPath, configMap("fine", ""), 403, "CREATE configmaps ConfigMap fine")
	as(t, c, "jane", "DELETE", validatingBindings+"/all", "", 200, "") // policies do not apply to bindings, so that a broken policy can be fixed
	as(t, c, "jane", "POST", configMapsPath, configMap("x", ""), 201, "")
}

// TestPolicyVersions checks that a policy receives objects in the version that its rules match.
func TestPolicyVersions(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	as(t, c, "admin", "POST", validatingPolicies, policyBody(t, "old", `matchConstraints: {resourceRules: [{apiGroups: [autoscaling], apiVersions: [v1], operations: [CREATE], resources: [horizontalpodautoscalers]}]},
		validations: [{expression: "object.apiVersion == 'autoscaling/v1' && object.spec.targetCPUUtilizationPercentage < 50", messageExpression: "request.kind.version + request.requestKind.version + request.resource.version"}]`), 201, "")
	as(t, c, "admin", "POST", validatingBindings, bound(t, "old", "old", denies), 201, "")
	scaler := `{metadata: {name: h}, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: %d}}}]}}`
	as(t, c, "admin", "POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", jsonOf(t, fmt.Sprintf(scaler, 60)), 422, "v1v2v1")
	as(t, c, "admin", "POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", jsonOf(t, fmt.Sprintf(scaler, 40)), 201, "")
	as(t, c, "admin", "PATCH", validatingPolicies+"/old", `{"spec":{"matchConstraints":{"matchPolicy":"Exact"}}}`, 200, "")
	as(t, c, "admin", "POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", strings.Replace(jsonOf(t, fmt.Sprintf(scaler, 60)), `"name":"h"`, `"name":"i"`, 1), 201, "")
}

// body sends a request as admin and returns the response body.
func body(t *testing.T, c *ControlPlane, method, path, body string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	r.Header.Set("User", "admin")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Body.String()
}

func mutationsOf(expressions ...string) string {
	var mutations []string
	for _, text := range expressions {
		kind, field := "ApplyConfiguration", "applyConfiguration"
		if strings.Contains(text, "JSONPatch{") {
			kind, field = "JSONPatch", "jsonPatch"
		}
		mutations = append(mutations, fmt.Sprintf("{patchType: %s, %s: {expression: %q}}", kind, field, text))
	}
	return "mutations: [" + strings.Join(mutations, ", ") + "]"
}

// TestMutatingPolicies checks apply configurations and JSON patches for built-in and custom objects.
func TestMutatingPolicies(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	define(t, c)
	constraints := `matchConstraints: {resourceRules: [{apiGroups: ["", apps, example.com], apiVersions: [v1], operations: [CREATE], resources: [configmaps, deployments, limits]}]}, reinvocationPolicy: Never, `
	as(t, c, "admin", "POST", mutatingPolicies, policyBody(t, "m", constraints+`variables: [{name: who, expression: "request.userInfo.username"}], `+mutationsOf(
		"Object{metadata: Object.metadata{labels: {'by': variables.who}}}",
		"[JSONPatch{op: 'test', path: '/metadata/labels/by', value: 'admin'}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: object.metadata.labels.by}]",
		"[JSONPatch{op: 'test', path: '/metadata/labels/by', value: 'nobody'}, JSONPatch{op: 'remove', path: '/metadata/labels'}]",
		"object.kind == 'Deployment' ? Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'side', image: 'sidecar'}]}}}} : "+
			"object.kind == 'Limit' ? Object{spec: Object.spec{tags: ['b'], max: 7}} : Object{}",
	)), 201, "")
	as(t, c, "admin", "POST", mutatingBindings, bound(t, "m", "m", "matchResources: {}"), 201, "")
	got := body(t, c, "POST", configMapsPath, configMap("a", ""))
	if !strings.Contains(got, `"labels":{"a/b":"admin","by":"admin"}`) {
		t.Errorf("a configmap became %s", got)
	}
	got = body(t, c, "POST", "/apis/apps/v1/namespaces/default/deployments", jsonOf(t, `{metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, env: [{name: E, value: "1"}, {name: E, value: "2"}]}]}}}}`))
	if !strings.Contains(got, `"name":"side","image":"sidecar","resources":{},"terminationMessagePath"`) || !strings.Contains(got, `"name":"c","image":"i","env":[{"name":"E","value":"1"},{"name":"E","value":"2"}]`) {
		t.Errorf("a deployment with a duplicate variable became %s", got)
	}
	for _, version := range []string{"v1", "v2"} {
		got = body(t, c, "POST", "/apis/example.com/"+version+"/namespaces/default/limits", `{"apiVersion":"example.com/`+version+`","kind":"Limit","metadata":{"name":"`+version+`"},"spec":{"tags":["a"]}}`)
		if !strings.Contains(got, `"max":7`) || !strings.Contains(got, `"tags":["a","b"]`) || !strings.Contains(got, `"by":"admin"`) || !strings.Contains(got, `"apiVersion":"example.com/`+version+`"`) {
			t.Errorf("a limit of %s became %s", version, got)
		}
	}
}

// TestMutationFaults checks that errors of a mutation reject the request, unless the failure policy
// ignores them.
func TestMutationFaults(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	define(t, c)
	for n, test := range []struct{ expression, want string }{
		{"Object{metadata: Object.metadat{labels: {'a': 'b'}}}", `type mismatch: unexpected type name \"Object.metadat\", expected \"Object.metadata\"`},
		{"Object{metadata: Object.metadata{labelz: {'a': 'b'}}}", "error applying patch: failed to convert patch object to typed object: .metadata.labelz: field not declared in schema"},
		{"Object{spec: Object.spec{plain: ['a']}}", "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.plain"},
		{"[JSONPatch{op: 'remove', path: '/spec/none'}]", `JSON Patch: error in remove for path: '/spec/none': Unable to remove nonexistent key: none: missing value`},
		{"[JSONPatch{op: 'add', path: '/spec/plain/7', value: 'a'}]", `JSON Patch: error in add for path: '/spec/plain/7': Unable to access invalid index: 7: invalid index referenced`},
		{"[JSONPatch{op: 'jump', path: '/spec'}]", `JSON Patch: Unexpected kind: jump`},
		{"[JSONPatch{op: 'replace', path: '/spec/plain', value: object.nope}]", "resulted in error: no such key: nope"},
	} {
		name := fmt.Sprint("f", n)
		constraints := `matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [limits]}]}, reinvocationPolicy: Never, `
		as(t, c, "admin", "POST", mutatingPolicies, policyBody(t, name, constraints+mutationsOf(test.expression)), 201, "")
		as(t, c, "admin", "POST", mutatingBindings, bound(t, name, name, "matchResources: {}"), 201, "")
		limit := `{"apiVersion":"example.com/v1","kind":"Limit","metadata":{"name":"` + name + `"},"spec":{"plain":["x"]}}`
		as(t, c, "admin", "POST", "/apis/example.com/v1/namespaces/default/limits", limit, 403, "policy '"+name+"' with binding '"+name+"' denied request: ")
		as(t, c, "admin", "POST", "/apis/example.com/v1/namespaces/default/limits", limit, 403, test.want)
		as(t, c, "admin", "PATCH", mutatingPolicies+"/"+name, `{"spec":{"failurePolicy":"Ignore"}}`, 200, "")
		as(t, c, "admin", "POST", "/apis/example.com/v1/namespaces/default/limits", limit, 201, "")
		as(t, c, "admin", "DELETE", mutatingBindings+"/"+name, "", 200, "")
	}
}

// TestReinvocation checks that policies run in the order of their names, and that policies with the
// reinvocation policy IfNeeded run again after a later modification.
func TestReinvocation(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	count := func(key string) string {
		return mutationsOf("Object{metadata: Object.metadata{annotations: {'" + key + "': has(object.metadata.annotations) && '" + key + "' in object.metadata.annotations ? object.metadata.annotations['" + key + "'] + 'x' : 'x'," +
			"'order': (has(object.metadata.annotations) && 'order' in object.metadata.annotations ? object.metadata.annotations['order'] : '') + '" + key + "'}}}")
	}
	for name, reinvoked := range map[string]string{"a": "IfNeeded", "b": "Never", "c": "IfNeeded"} {
		as(t, c, "admin", "POST", mutatingPolicies, policyBody(t, name, "reinvocationPolicy: "+reinvoked+", "+count(name)), 201, "")
		as(t, c, "admin", "POST", mutatingBindings, bound(t, name, name, "matchResources: {}"), 201, "")
	}
	got := body(t, c, "POST", configMapsPath, configMap("x", ""))
	if !strings.Contains(got, `"annotations":{"a":"xx","b":"x","c":"xx","order":"abcac"}`) {
		t.Errorf("after three policies and a reinvocation of the first one: %s", got)
	}
}

// TestPermittedParams checks that the author of a policy or binding must be allowed to read its parameters.
func TestPermittedParams(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	role := jsonOf(t, `{metadata: {name: author}, rules: [{apiGroups: [admissionregistration.k8s.io], resources: ["*"], verbs: ["*"]}, {apiGroups: [""], resources: [configmaps], verbs: [get]}]}`)
	as(t, c, "admin", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role, 201, "")
	as(t, c, "admin", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", jsonOf(t, `{metadata: {name: author}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: author}, subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]}`), 201, "")
	of := func(name, kind string) string {
		return policyBody(t, name, `paramKind: {apiVersion: v1, kind: `+kind+`}, validations: [{expression: "true"}]`)
	}
	as(t, c, "jane", "POST", validatingPolicies, of("a", "ConfigMap"), 201, "")
	as(t, c, "jane", "POST", validatingPolicies, of("b", "Secret"), 422,
		`spec.paramKind: Forbidden: user \u0026{jane  [system:authenticated] map[]} must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`)
	as(t, c, "jane", "PATCH", validatingPolicies+"/a", `{"spec":{"paramKind":{"kind":"Secret"}}}`, 422, "spec.paramKind: Forbidden")
	as(t, c, "admin", "PATCH", validatingPolicies+"/a", `{"spec":{"paramKind":{"kind":"Secret"}}}`, 200, "")
	as(t, c, "jane", "PATCH", validatingPolicies+"/a", `{"spec":{"failurePolicy":"Ignore"}}`, 200, "") // paramKind is unchanged
	ref := denies + ", paramRef: {name: s, namespace: default, parameterNotFoundAction: Allow}"
	as(t, c, "jane", "POST", validatingBindings, bound(t, "a", "a", ref), 422,
		`spec.paramRef: Forbidden: user \u0026{jane  [system:authenticated] map[]} does not have \"get\" permission on the object referenced by paramRef`)
	as(t, c, "jane", "POST", validatingBindings, bound(t, "none", "none", ref), 422, "spec.paramRef: Forbidden")
	as(t, c, "jane", "POST", mutatingPolicies, policyBody(t, "m", `paramKind: {apiVersion: v1, kind: ConfigMap}, reinvocationPolicy: Never, `+mutationsOf("Object{}")), 201, "")
	as(t, c, "jane", "POST", mutatingBindings, bound(t, "m", "m", "paramRef: {name: s, namespace: default, parameterNotFoundAction: Allow}"), 201, "")
}

// TestTypeChecking checks that the status of a policy contains the type errors of its expressions, for each
// kind, by the time its write returns.
func TestTypeChecking(t *testing.T) {
	t.Parallel()
	c := newRBACPlane(t)
	define(t, c)
	constraints := `matchConstraints: {resourceRules: [{apiGroups: [apps, example.com], apiVersions: [v1], operations: [CREATE], resources: [deployments, replicasets, limits, pods]}]}, `
	for n, test := range []struct {
		validation string
		want       []string // parts of the warning, or nil if there is no warning
	}{
		{`expression: "object.spec.replicass > 1"`, []string{
			`"fieldRef":"spec.validations[0].expression"`,
			`"warning":"apps/v1, Kind=Deployment: ERROR: \u003cinput\u003e:1:12: undefined field 'replicass'\n | object.spec.replicass \u003e 1\n | ...........^\n\napps/v1, Kind=ReplicaSet: ERROR`,
			`example.com/v1, Kind=Limit: ERROR`,
		}},
		{`expression: "object.spec.replicas > 'x'"`, []string{"found no matching overload for '_\\u003e_' applied to '(int, string)'"}},
		{`expression: "object.kind == 'Limit' || object.metadata.labels.all(k, v, v != '') && object.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')"`, nil},
		{`expression: "has(object.metadata.name)", messageExpression: "'a ' + object.metadata.nam"`, []string{`"fieldRef":"spec.validations[0].messageExpression"`, "undefined field 'nam'"}},
		{`expression: "variables.x > 1"`, nil},
		{`expression: "params.data.a == 'b' && params.dat == 1"`, []string{"undefined field 'dat'"}},
	} {
		name := fmt.Sprint("t", n)
		got := body(t, c, "POST", validatingPolicies, policyBody(t, name, constraints+`paramKind: {apiVersion: v1, kind: ConfigMap}, variables: [{name: x, expression: "object.metadata.generation"}], validations: [{`+test.validation+`}]`))
		if !strings.Contains(got, `"observedGeneration":1`) || len(test.want) == 0 && !strings.Contains(got, `"typeChecking":{}`) {
			t.Errorf("policy with the validation %s: %s", test.validation, got)
		}
		for _, text := range test.want {
			if !strings.Contains(got, text) {
				t.Errorf("%s:\n%s\nwant %s", test.validation, got, text)
			}
		}
	}
	as(t, c, "admin", "PATCH", validatingPolicies+"/t0", `{"metadata":{"labels":{"a":"b"}}}`, 200, `"observedGeneration":1`)
	as(t, c, "admin", "PATCH", validatingPolicies+"/t0", `{"spec":{"validations":[{"expression":"has(object.metadata)"}]}}`, 200, `"status":{"observedGeneration":2,"typeChecking":{}}`)
	as(t, c, "admin", "GET", validatingPolicies+"/t0", "", 200, `"generation":2`)
}
