package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/admission/config"
)

const staticPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: guard.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["", admissionregistration.k8s.io], apiVersions: ["*"], operations: ["*"], resources: [configmaps, validatingadmissionpolicies]}]}
  validations: [{expression: "request.operation == 'DELETE' || !object.metadata.name.startsWith('bad')", message: no bad names}]
`

const staticBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: guard.static.k8s.io}
spec: {policyName: guard.static.k8s.io, validationActions: [Deny]}
`

const staticMutation = `
apiVersion: v1
kind: List
items:
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicy
  metadata: {name: label.static.k8s.io}
  spec:
    reinvocationPolicy: Never
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
    mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'from': 'file'}}}"}}]
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingAdmissionPolicyBinding
  metadata: {name: label.static.k8s.io}
  spec: {policyName: label.static.k8s.io}
`

// TestStaticPolicies checks that policies in files have effect from the start, even on admission configuration,
// until the files are replaced with other valid files.
func TestStaticPolicies(t *testing.T) {
	t.Parallel()
	validating, mutating := t.TempDir(), t.TempDir()
	write := func(dir, content string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file, filepath.Join(dir, "a.yaml")); err != nil { // with a rename, the server never reads a partly written file
			t.Fatal(err)
		}
	}
	write(validating, staticPolicy+"---"+staticBinding)
	write(mutating, staticMutation)
	options := Options{Admission: AdmissionOptions{Config: &config.Config{
		ValidatingAdmissionPolicy: config.PolicyAdmission{StaticManifestsDir: validating}, MutatingAdmissionPolicy: config.PolicyAdmission{StaticManifestsDir: mutating},
	}}}
	c, err := New(newEnv(t), "/manifests", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	refusal := "ValidatingAdmissionPolicy 'guard.static.k8s.io' with binding 'guard.static.k8s.io' denied request: no bad names"
	expect(t, c, "POST", configMapsPath, configMap("bad", ""), 422, refusal)
	expect(t, c, "POST", configMapsPath, configMap("good", ""), 201, `"labels":{"from":"file"}`)
	expect(t, c, "POST", validatingPolicies, policyBody(t, "bad", `validations: [{expression: "true"}]`), 422, refusal)
	expect(t, c, "GET", validatingPolicies+"/guard.static.k8s.io", "", 404, "")

	i := c.opened.Load()
	for content, fault := range map[string]string{
		staticBinding: `binding "guard.static.k8s.io" references policy "guard.static.k8s.io" which does not exist in the manifest directory`,
		strings.Replace(staticBinding, "policyName: guard.static.k8s.io", "policyName: guard", 1):                            `"guard.static.k8s.io": spec.policyName "guard" must end with ".static.k8s.io"`,
		strings.Replace(staticBinding, "[Deny]", "[Deny], paramRef: {name: a, parameterNotFoundAction: Deny}", 1):            "spec.paramRef is not supported for static manifests",
		strings.Replace(staticPolicy, "  validations:", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  validations:", 1): "spec.paramKind is not supported for static manifests",
		strings.Replace(staticPolicy, "startsWith('bad')", "startsWith(", 1):                                                 "spec.validations[0].expression",
		strings.Replace(staticPolicy, "Validating", "Mutating", 1):                                                           "Kind=MutatingAdmissionPolicy is not allowed here: ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding of admissionregistration.k8s.io/v1",
	} {
		write(validating, content)
		if err := i.admission.manifests[0].reload(); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("reload a faulty manifest: error %v, want %q", err, fault)
		}
		expect(t, c, "POST", configMapsPath, configMap("bad", ""), 422, refusal)
	}
	write(validating, staticPolicy+"---"+strings.Replace(staticBinding, "Deny", "Warn", 1))
	write(mutating, "# nothing any more\n")
	for _, m := range i.admission.manifests {
		if err := m.reload(); err != nil {
			t.Error(err)
		}
	}
	expect(t, c, "POST", configMapsPath, configMap("bad", ""), 201, `"name":"bad","namespace":"default"`)
	if code, got := send(t, c, "GET", configMapsPath+"/bad", ""); code != 200 || strings.Contains(string(got), "from") {
		t.Errorf("get the ConfigMap bad: %d %s, want an object without mutations", code, got)
	}
	for path, object := range map[string]string{
		validatingPolicies: policyBody(t, "a.static.k8s.io", `validations: [{expression: "true"}]`), validatingBindings: bound(t, "a.static.k8s.io", "a", denies),
		mutatingPolicies: policyBody(t, "a.static.k8s.io", `reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[]"}}]`), mutatingBindings: bound(t, "a.static.k8s.io", "a", ""),
	} {
		expect(t, c, "POST", path, object, 422, "are reserved for static manifest-based configurations")
	}
	write(validating, staticBinding)
	broken, err := New(newEnv(t), "/broken", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broken.Close)
	if code, _ := send(t, broken, "GET", "/api/v1/namespaces", ""); code < 500 {
		t.Errorf("with a broken file: %d", code)
	}
}
