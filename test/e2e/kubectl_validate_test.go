package e2e

import (
	"strings"
	"testing"
)

var validating = []kubectlBehavior{
	{"refuses an unknown field when strict", validateStrict},
	{"warns of an unknown field when configured to", validateWarn},
	{"drops an unknown field when configured to", validateIgnore},
	{"refuses a duplicate field", validateDuplicate},
	{"tells every fault of an object", validateFaults},
	{"shows the server's warnings", validateWarnings},
	{"refuses a kind that is not served", validateKind},
	{"refuses an update of what may not change", validateImmutable},
}

const unknownField = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\nbogus: 1\n"

func validateStrict(t *testing.T, k *kubectl) {
	k.failsWith(unknownField, 1, `strict decoding error: unknown field "bogus"`, "create", "--validate=strict", "-f", "-")
	k.failsWith(unknownField, 1, `strict decoding error: unknown field "bogus"`, "apply", "-f", "-")
	k.fails(1, "not found", "get", "cm", "c")
}

func validateWarn(t *testing.T, k *kubectl) {
	o := k.run(t.Context(), unknownField, "create", "--validate=warn", "-f", "-")
	if o.code != 0 || !strings.Contains(o.stderr, `Warning: unknown field "bogus"`) {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

func validateIgnore(t *testing.T, k *kubectl) {
	o := k.run(t.Context(), unknownField, "create", "--validate=ignore", "-f", "-")
	if o.code != 0 || o.stderr != "" {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	k.prints(`{"a":"b"}`, "get", "cm", "c", "-o", "jsonpath={.data}{.bogus}")
}

func validateDuplicate(t *testing.T, k *kubectl) {
	k.fails(1, `strict decoding error: duplicate field "data.a"`, "create", "--raw", "/api/v1/namespaces/"+k.namespace+"/configmaps?fieldValidation=Strict",
		"-f", k.file("c.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","a":"2"}}`))
}

func validateFaults(t *testing.T, k *kubectl) {
	stderr := k.failsWith(`apiVersion: v1
kind: ConfigMap
metadata:
  name: Not_A_Name
  labels: {tier: -front-}
  annotations: {"not a key": x}
  ownerReferences: [{apiVersion: v1, kind: Pod, name: "", uid: ""}]
`, 1, `The ConfigMap "Not_A_Name" is invalid:`, "create", "-f", "-")
	for _, fault := range []string{
		`metadata.name: Invalid value: "Not_A_Name"`,
		`metadata.labels: Invalid value: "-front-"`,
		`metadata.annotations: Invalid value: "not a key"`,
		`metadata.ownerReferences`,
	} {
		if !strings.Contains(stderr, fault) {
			t.Errorf("no %q in\n%s", fault, stderr)
		}
	}
}

func validateWarnings(t *testing.T, k *kubectl) {
	o := k.run(t.Context(), "", "get", "endpoints")
	if o.code != 0 || !strings.Contains(o.stderr, "Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

func validateKind(t *testing.T, k *kubectl) {
	k.failsWith("apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: d}\n", 1,
		`no matches for kind "Deployment" in version "apps/v1beta1"`, "apply", "-f", "-")
}

func validateImmutable(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	k.fails(1, "the name of the object (other) does not match the name on the URL (c)", "patch", "cm", "c", "--type=merge", "-p",
		`{"metadata":{"name":"other"}}`)
	k.fails(1, "the namespace of the provided object does not match the namespace sent on the request", "patch", "cm", "c", "--type=merge", "-p",
		`{"metadata":{"namespace":"other"}}`)
	k.fails(1, "metadata.deletionTimestamp: Invalid value:", "patch", "cm", "c", "--type=merge", "-p",
		`{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}`)
	k.prints("c", "get", "cm", "c", "-o", "jsonpath={.metadata.name}{.metadata.deletionTimestamp}")
}
