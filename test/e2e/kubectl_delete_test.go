package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var deleting = []kubectlBehavior{
	{"deletes by name, file, label and all", deleteMany},
	{"deletes a large manifest", deleteManifest},
	{"cascades as requested", deleteCascade},
	{"waits for finalizers", deleteFinalizers},
	{"sets a grace period of pods", deleteGrace},
	{"dry run deletes nothing", deleteDryRun},
	{"waits for a deletion", waitForDelete},
	{"waits for a value and a condition", waitForValue},
	{"waits with a timeout", waitTimeout},
}

func deleteMany(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "x: one", "b": "x: two", "c": "x: three", "d": "x: three", "e": "x: four"})
	k.prints(`configmap "a" deleted from `+k.namespace+` namespace`, args("delete cm a")...)
	k.okWith(configMap("b", "a: b"), "delete", "-f", "-")
	k.ok(args("delete cm -l x=three")...)
	k.prints("configmap/e", "get", "cm", "-l", "x", "-o", "name")
	k.ok(args("delete cm --all")...)
	k.prints("", "get", "cm", "-l", "x", "-o", "name")
	k.fails(1, `configmaps "a" not found`, args("delete cm a")...)
	k.ok(args("delete cm a --ignore-not-found")...)
}

func deleteManifest(t *testing.T, k *kubectl) {
	file, namespace := guestbook(t, k)
	k.ok("apply", "-f", file)
	// The namespace is deleted first, together with the objects that kubectl has not deleted yet.
	out := k.ok("delete", "--wait=false", "--ignore-not-found", "-f", file)
	if !strings.Contains(out, `namespace "`+namespace+`" deleted`) {
		t.Errorf("the namespace was not deleted:\n%s", out)
	}
	k.fails(1, "not found", "get", "clusterrole", namespace+"-nodes")
	k.ok("wait", "--for=delete", "--timeout=30s", "namespace/"+namespace)
}

func deleteCascade(t *testing.T, k *kubectl) {
	for mode, finalizer := range map[string]string{"foreground": "foregroundDeletion", "orphan": "orphan"} {
		k.ok(args("create deployment " + mode + " --image=nginx")...)
		k.ok("delete", "deployment", mode, "--cascade="+mode, "--wait=false")
		// The garbage collector may already have removed the finalizer, and therefore the object.
		if o := k.run(t.Context(), "", "get", "deployment", mode, "-o", "jsonpath={.metadata.finalizers[0]}"); o.code == 0 && o.stdout != finalizer {
			t.Errorf("--cascade=%s left finalizers %q", mode, o.stdout)
		}
	}
	k.ok(args("create deployment plain --image=nginx")...)
	k.ok(args("delete deployment plain --cascade=background")...)
	k.fails(1, "not found", "get", "deployment", "plain")
}

func deleteFinalizers(t *testing.T, k *kubectl) {
	k.okWith("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, finalizers: [example.com/hold]}\n", "create", "-f", "-")
	k.ok(args("delete cm kept --wait=false")...)
	if at := k.ok("get", "cm", "kept", "-o", "jsonpath={.metadata.deletionTimestamp}"); at == "" {
		t.Error("no deletion timestamp")
	}
	k.ok("patch", "cm", "kept", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	k.fails(1, "not found", "get", "cm", "kept")
}

func deleteGrace(t *testing.T, k *kubectl) {
	k.okWith(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: somewhere, containers: [{name: c, image: nginx}]}
`, "create", "-f", "-")
	k.ok(args("delete pod p --grace-period=25 --wait=false")...)
	k.prints("25", "get", "pod", "p", "-o", "jsonpath={.metadata.deletionGracePeriodSeconds}")
	k.matches(`p +0/1 +Terminating`, "get", "pod", "p")
	k.ok(args("delete pod p --grace-period=0 --force --wait=false")...)
	k.fails(1, "not found", "get", "pod", "p")
}

func deleteDryRun(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	k.matches(`configmap "c" deleted.* \(server dry run\)`, args("delete cm c --dry-run=server")...)
	k.ok("get", "cm", "c")
}

func waitForDelete(t *testing.T, k *kubectl) {
	k.okWith("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: going, finalizers: [example.com/hold]}\n", "create", "-f", "-")
	k.ok(args("delete cm going --wait=false")...)
	done := make(chan outcome, 1)
	go func() { done <- k.run(t.Context(), "", args("wait --for=delete cm/going --timeout=60s")...) }()
	k.ok("patch", "cm", "going", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if o := <-done; o.code != 0 {
		t.Errorf("wait: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
}

func waitForValue(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx")...)
	done := make(chan outcome, 2)
	go func() {
		done <- k.run(t.Context(), "", "wait", "--for=jsonpath={.spec.replicas}=3", "deployment/web", "--timeout=60s")
	}()
	go func() {
		done <- k.run(t.Context(), "", "wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
	}()
	k.ok(args("scale deployment web --replicas=3")...)
	k.ok("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p",
		`{"status":{"observedGeneration":2,"conditions":[{"type":"Available","status":"True"}]}}`)
	for range 2 {
		if o := <-done; o.code != 0 || o.stdout != "deployment.apps/web condition met\n" {
			t.Errorf("wait: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
		}
	}
}

func waitTimeout(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	k.fails(1, "timed out waiting for the condition on configmaps/c", "wait", "--for=jsonpath={.data.a}=z", "cm/c", "--timeout=1s")
	k.fails(1, `configmaps "nope" not found`, "wait", "--for=jsonpath={.data.a}=z", "cm/nope", "--timeout=1s")
	if _, err := k.client.CoreV1().ConfigMaps(k.namespace).Get(t.Context(), "c", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
