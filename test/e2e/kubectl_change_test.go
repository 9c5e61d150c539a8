package e2e

import (
	"strings"
	"testing"
)

var changing = []kubectlBehavior{
	{"patches with all three kinds of patch", changePatch},
	{"patches a subresource", changePatchStatus},
	{"labels and unlabels", changeLabels},
	{"annotates", changeAnnotations},
	{"scales", changeScale},
	{"sets images, variables and resources", changeSet},
	{"edits with an editor", changeEdit},
	{"reports a rejected edit", changeEditInvalid},
	{"replaces", changeReplace},
	{"replaces by force", changeReplaceForce},
	{"does not replace a newer revision", changeConflict},
	{"sets a subject and a service account", changeSubjects},
}

func changePatch(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx:1")...)
	k.prints("deployment.apps/web patched", "patch", "deployment", "web", "-p",
		`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}`)
	k.prints("side nginx", "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].name}")
	k.ok("patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"replicas":5,"paused":true},"metadata":{"labels":{"app":null}}}`)
	k.prints("5 true .", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.paused} {.metadata.labels.app}.")
	k.ok("patch", "deployment", "web", "--type=json", "-p",
		`[{"op":"test","path":"/spec/replicas","value":5},{"op":"replace","path":"/spec/replicas","value":6},{"op":"remove","path":"/spec/paused"}]`)
	k.prints("6", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}{.spec.paused}")
	k.fails(1, "the server rejected our request due to an error in our request", "patch", "deployment", "web", "--type=json",
		"-p", `[{"op":"test","path":"/spec/replicas","value":5}]`)
	k.prints("deployment.apps/web patched (no change)", "patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"replicas":6}}`)
}

func changePatchStatus(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx")...)
	k.ok("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"readyReplicas":1,"replicas":1},"spec":{"replicas":9}}`)
	k.prints("1 1", "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas} {.spec.replicas}")
}

func changeLabels(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "x: one", "b": "x: one"})
	k.prints("configmap/a labeled", args("label cm a tier=front")...)
	k.fails(1, "'tier' already has a value (front), and --overwrite is false", "label", "cm", "a", "tier=back")
	k.ok(args("label cm a tier=back --overwrite")...)
	k.ok(args("label cm --all owner=me")...)
	k.ok(args("label cm -l x=one x-")...)
	k.prints(`{"owner":"me","tier":"back"} {"owner":"me"}`, "get", "cm", "a", "b", "-o", "jsonpath={.items[*].metadata.labels}")
	k.prints("configmap/a not labeled", args("label cm a tier=back --overwrite")...)
	k.fails(1, "a valid label must be", "patch", "cm", "a", "--type=merge", "-p", `{"metadata":{"labels":{"bad":"-value-"}}}`)
}

func changeAnnotations(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "x: one"})
	k.prints("configmap/a annotated", "annotate", "cm", "a", "note=any text, even {this}")
	k.prints("any text, even {this}", "get", "cm", "a", "-o", "jsonpath={.metadata.annotations.note}")
	k.ok(args("annotate cm a note-")...)
	k.prints("", "get", "cm", "a", "-o", "jsonpath={.metadata.annotations.note}")
}

func changeScale(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx")...)
	k.prints("deployment.apps/web scaled", args("scale deployment web --replicas=4")...)
	k.prints("4", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
	k.fails(1, "Expected replicas to be 1, was 4", args("scale deployment web --current-replicas=1 --replicas=2")...)
	k.fails(1, "must be greater than or equal to 0", "patch", "deployment", "web", "--subresource=scale", "--type=merge", "-p", `{"spec":{"replicas":-1}}`)
	k.okWith(statefulSet, "create", "-f", "-")
	k.prints("statefulset.apps/db scaled", args("scale statefulset db --replicas=0")...)
}

const statefulSet = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "postgres:17"}]}
`

func changeSet(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx:1")...)
	k.prints("deployment.apps/web image updated", args("set image deployment/web nginx=nginx:2")...)
	k.prints("deployment.apps/web env updated", args("set env deployment/web MODE=fast")...)
	k.prints("deployment.apps/web resource requirements updated", args("set resources deployment web --limits=cpu=200m,memory=64Mi")...)
	k.prints(`nginx:2 fast 200m 4`, "get", "deployment", "web", "-o",
		"jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value} {.spec.template.spec.containers[0].resources.limits.cpu} {.metadata.generation}")
	k.ok(args("create service clusterip web --tcp=80")...)
	k.prints("service/web selector updated", args("set selector service web tier=front")...)
	k.prints(`{"tier":"front"}`, "get", "service", "web", "-o", "jsonpath={.spec.selector}")
}

// editor returns an environment in which KUBE_EDITOR applies a sed expression to the edited file.
func editor(k *kubectl, expression string) []string {
	script := k.file("editor.sh", "#!/bin/sh\nsed '"+expression+"' \"$1\" > \"$1.new\" && cat \"$1.new\" > \"$1\"\n")
	return append(k.env, "KUBE_EDITOR=sh "+script)
}

func changeEdit(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: before"), "create", "-f", "-")
	k.env = editor(k, "s/before/after/")
	k.prints("configmap/c edited", args("edit configmap c")...)
	k.prints("after", "get", "cm", "c", "-o", "jsonpath={.data.a}")
	o := k.run(t.Context(), "", "edit", "configmap", "c")
	if o.code != 0 || !strings.Contains(o.stderr+o.stdout, "no changes made") {
		t.Errorf("an edit without a change: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

func changeEditInvalid(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "tier: front"})
	k.env = editor(k, "s/tier: front/tier: -front-/")
	// kubectl opens the editor again. This time, the editor changes nothing, and kubectl exits.
	stderr := k.fails(1, `configmaps "a" is invalid`, args("edit cm a")...)
	if !strings.Contains(stderr, "Edit cancelled") {
		t.Errorf("kubectl does not give up:\n%s", stderr)
	}
	k.prints("front", "get", "cm", "a", "-o", "jsonpath={.metadata.labels.tier}")
}

func changeReplace(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one, b: two"), "create", "-f", "-")
	if out := k.okWith(configMap("c", "a: other"), "replace", "-f", "-"); out != "configmap/c replaced\n" {
		t.Errorf("replace prints %q", out)
	}
	k.prints(`{"a":"other"}`, "get", "cm", "c", "-o", "jsonpath={.data}")
	k.failsWith(configMap("nope", "a: b"), 1, `configmaps "nope" not found`, "replace", "-f", "-")
	k.ok(args("create deployment web --image=nginx --replicas=2")...)
	k.ok("replace", "--subresource=status", "-f", k.file("status.yaml",
		strings.Replace(k.ok("get", "deployment", "web", "-o", "yaml"), "status: {}", "status: {replicas: 2}", 1)))
	k.prints("2", "get", "deployment", "web", "-o", "jsonpath={.status.replicas}")
}

func changeReplaceForce(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one"), "create", "-f", "-")
	before := k.ok("get", "cm", "c", "-o", "jsonpath={.metadata.uid}")
	out := k.okWith(configMap("c", "a: two"), "replace", "--force", "-f", "-")
	if !strings.Contains(out, "deleted") || !strings.Contains(out, "configmap/c replaced") {
		t.Errorf("replace --force prints %q", out)
	}
	if after := k.ok("get", "cm", "c", "-o", "jsonpath={.metadata.uid}"); after == before {
		t.Error("still the same object")
	}
}

func changeConflict(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one"), "create", "-f", "-")
	old := k.ok("get", "cm", "c", "-o", "yaml")
	k.ok("patch", "cm", "c", "-p", `{"data":{"a":"two"}}`)
	k.failsWith(old, 1, `Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again`,
		"replace", "-f", "-")
}

func changeSubjects(t *testing.T, k *kubectl) {
	k.ok(args("create role reader --verb=get --resource=pods")...)
	k.ok("create", "rolebinding", "read", "--role=reader", "--user=jane")
	k.ok(args("set subject rolebinding read --group=staff")...)
	k.prints("jane staff", "get", "rolebinding", "read", "-o", "jsonpath={.subjects[*].name}")
	k.ok(args("create deployment web --image=nginx")...)
	k.ok(args("set serviceaccount deployment web robot")...)
	k.prints("robot", "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.serviceAccountName}")
}
