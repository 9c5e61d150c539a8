package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var applying = []kubectlBehavior{
	{"creates every kind of a large manifest", applyCreates},
	{"reports unchanged objects", applyUnchanged},
	{"server-side creates and takes ownership", applyServerSide},
	{"server-side rejects a conflict and can force it", applyConflict},
	{"prunes removed objects", applyPrune},
	{"writes only changed objects", applyConfigures},
	{"dry run on the server stores nothing", applyDryRun},
	{"dry run of a large manifest stores nothing", applyDryRunManifest},
	{"removes a field that the manifest no longer contains", applyRemovesField},
	{"edits and views the last applied configuration", applyLastApplied},
	{"diff has an exit code for changes", applyDiff},
	{"takes a manifest from a directory and from standard input", applySources},
	{"by label selector", applySelector},
}

// guestbook writes the manifest of the guestbook application with a new namespace. It returns the path of the
// file and the name of the namespace.
func guestbook(t *testing.T, k *kubectl) (file, namespace string) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("testdata", "guestbook.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	namespace = k.namespace + "-shop"
	k.namespace = namespace
	return k.file("guestbook.yaml", strings.ReplaceAll(string(manifest), "GUESTBOOK", namespace)), namespace
}

var guestbookObjects = []string{
	"serviceaccount/guestbook", "role.rbac.authorization.k8s.io/guestbook", "rolebinding.rbac.authorization.k8s.io/guestbook",
	"configmap/guestbook", "secret/guestbook", "persistentvolumeclaim/uploads", "service/frontend", "service/redis",
	"deployment.apps/frontend", "statefulset.apps/redis", "daemonset.apps/agent", "job.batch/seed", "cronjob.batch/backup",
	"horizontalpodautoscaler.autoscaling/frontend", "poddisruptionbudget.policy/frontend", "networkpolicy.networking.k8s.io/redis",
	"ingress.networking.k8s.io/guestbook", "resourcequota/guestbook", "limitrange/guestbook",
}

func applyCreates(t *testing.T, k *kubectl) {
	file, namespace := guestbook(t, k)
	out := k.ok("apply", "-f", file)
	for _, object := range append(guestbookObjects, "namespace/"+namespace, "clusterrole.rbac.authorization.k8s.io/"+namespace+"-nodes") {
		if !strings.Contains(out, object+" created\n") {
			t.Errorf("no %q in\n%s", object+" created", out)
		}
	}
	k.prints("correct horse battery staple", "get", "secret", "guestbook", "-o", "go-template={{.data.password | base64decode}}")
	k.prints("3", "get", "deployment", "frontend", "-o", "jsonpath={.spec.replicas}")
	k.prints("RollingUpdate", "get", "daemonset", "agent", "-o", "jsonpath={.spec.updateStrategy.type}")
}

func applyUnchanged(t *testing.T, k *kubectl) {
	file, _ := guestbook(t, k)
	k.ok("apply", "-f", file)
	before := k.ok("get", "-f", file, "-o", "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}")
	// kubectl prints "configured" whenever it sends a patch. Some patches change nothing, for example because
	// of stringData.
	out := k.ok("apply", "-f", file)
	if unchanged, all := strings.Count(out, " unchanged\n"), strings.Count(out, "\n"); unchanged < all-4 {
		t.Errorf("%d of %d objects are unchanged:\n%s", unchanged, all, out)
	}
	if after := k.ok("get", "-f", file, "-o", "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}"); after != before {
		t.Errorf("resourceVersions changed\nfrom\n%s\nto\n%s", before, after)
	}
}

const configMapOf = `apiVersion: v1
kind: ConfigMap
metadata: {name: NAME}
data: {DATA}
`

// configMap returns the manifest of a ConfigMap. data is the content of a YAML mapping in flow style.
func configMap(name, data string) string {
	return strings.NewReplacer("NAME", name, "DATA", data).Replace(configMapOf)
}

func applyServerSide(t *testing.T, k *kubectl) {
	file, _ := guestbook(t, k)
	out := k.ok("apply", "--server-side", "--field-manager=shop", "-f", file)
	for _, object := range guestbookObjects {
		if !strings.Contains(out, object+" serverside-applied\n") {
			t.Errorf("no %q in\n%s", object+" serverside-applied", out)
		}
	}
	k.prints("shop Apply", "get", "service", "frontend", "-o", "jsonpath={.metadata.managedFields[*]['manager','operation']}")
	before := k.ok("get", "deployment", "frontend", "-o", "jsonpath={.metadata.resourceVersion}")
	k.ok("apply", "--server-side", "--field-manager=shop", "-f", file)
	k.prints(before, "get", "deployment", "frontend", "-o", "jsonpath={.metadata.resourceVersion}")
}

func applyConflict(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one, b: two"), "apply", "--server-side", "--field-manager=first", "-f", "-")
	stderr := k.failsWith(configMap("c", "a: other"), 1, `Apply failed with 1 conflict: conflict with "first": .data.a`,
		"apply", "--server-side", "--field-manager=second", "-f", "-")
	if !strings.Contains(stderr, "--force-conflicts") {
		t.Errorf("no advice on how to go on in\n%s", stderr)
	}
	k.okWith(configMap("c", "a: other"), "apply", "--server-side", "--field-manager=second", "--force-conflicts", "-f", "-")
	k.prints("other two", "get", "configmap", "c", "-o", "jsonpath={.data.a} {.data.b}")
	// Fields that the first manager removes are deleted, unless the second manager owns them.
	k.okWith("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "apply", "--server-side", "--field-manager=first", "-f", "-")
	k.prints(`{"a":"other"}`, "get", "configmap", "c", "-o", "jsonpath={.data}")
}

func applyPrune(t *testing.T, k *kubectl) {
	labelled := func(names ...string) string {
		var docs []string
		for _, name := range names {
			docs = append(docs, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", labels: {set: x}}\n")
		}
		return strings.Join(docs, "---\n")
	}
	k.okWith(labelled("a", "b"), "apply", "-f", "-")
	k.okWith(configMap("mine", "x: z"), "apply", "-f", "-")
	out := k.okWith(labelled("b", "c"), "apply", "--prune", "-l", "set=x", "--prune-allowlist=core/v1/ConfigMap", "-f", "-")
	for _, line := range []string{"configmap/b unchanged\n", "configmap/c created\n", "configmap/a pruned\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	k.fails(1, `configmaps "a" not found`, "get", "configmap", "a")
	k.ok("get", "configmap", "mine")
}

func applyConfigures(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one"), "apply", "-f", "-")
	k.ok("label", "configmap", "c", "by=hand")
	out := k.okWith(configMap("c", "a: two"), "apply", "-f", "-")
	if out != "configmap/c configured\n" {
		t.Errorf("apply of a change prints %q", out)
	}
	k.prints("two hand", "get", "configmap", "c", "-o", "jsonpath={.data.a} {.metadata.labels.by}")
}

func applyDryRun(t *testing.T, k *kubectl) {
	out := k.okWith(configMap("dry", "a: b"), "apply", "--dry-run=server", "-f", "-")
	if out != "configmap/dry created (server dry run)\n" {
		t.Errorf("a dry run prints %q", out)
	}
	out = k.okWith(configMap("dry", "a: b"), "apply", "--server-side", "--dry-run=server", "-o", "jsonpath={.metadata.uid}", "-f", "-")
	if len(out) != 36 {
		t.Errorf("a dry run shows the uid %q", out)
	}
	k.fails(1, "not found", "get", "configmap", "dry")
}

func applyDryRunManifest(t *testing.T, k *kubectl) {
	file, namespace := guestbook(t, k)
	k.ok("create", "namespace", namespace) // a dry run of objects requires the namespace
	for _, mode := range []string{"--server-side=false", "--server-side"} {
		out := k.ok("apply", "--dry-run=server", mode, "-f", file)
		if got := strings.Count(out, "(server dry run)\n"); got != len(guestbookObjects)+3 {
			t.Errorf("%s: %d objects went through a dry run, want %d:\n%s", mode, got, len(guestbookObjects)+3, out)
		}
	}
	k.prints("", "get", "deployments,services,ingresses,secrets,jobs", "-o", "name")
}

func applyRemovesField(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one, b: two"), "apply", "-f", "-")
	k.okWith(configMap("c", "a: one"), "apply", "-f", "-")
	k.prints(`{"a":"one"}`, "get", "configmap", "c", "-o", "jsonpath={.data}")
}

func applyLastApplied(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one"), "apply", "-f", "-")
	k.printsAll(args("apply view-last-applied configmap c"), "a: one", "kind: ConfigMap")
	file := k.file("c.yaml", configMap("c", "a: changed"))
	k.prints("configmap/c configured", "apply", "set-last-applied", "-f", file)
	k.printsAll(args("apply view-last-applied configmap c -o json"), `"a": "changed"`)
}

func applyDiff(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: one"), "apply", "-f", "-")
	if o := k.run(t.Context(), configMap("c", "a: one"), "diff", "-f", "-"); o.code != 0 || o.stdout != "" {
		t.Errorf("diff of no change: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o := k.run(t.Context(), configMap("c", "a: two"), "diff", "-f", "-")
	if o.code != 1 || !strings.Contains(o.stdout, "-  a: one") || !strings.Contains(o.stdout, "+  a: two") {
		t.Errorf("diff of a change: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = k.run(t.Context(), configMap("c", "a: two"), "diff", "--server-side", "--force-conflicts", "-f", "-")
	if o.code != 1 || !strings.Contains(o.stdout, "+  a: two") {
		t.Errorf("diff --server-side of a change: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	k.prints("one", "get", "configmap", "c", "-o", "jsonpath={.data.a}")
}

func applySources(t *testing.T, k *kubectl) {
	dir := t.TempDir()
	for name, manifest := range map[string]string{"one.yaml": configMap("one", "a: b"), "two.yml": configMap("two", "a: b"), "three.txt": "ignored"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.prints("configmap/one created\nconfigmap/two created", "apply", "-f", dir)
	kustomization := "resources: [one.yaml]\nnamePrefix: made-\nconfigMapGenerator:\n- name: generated\n  literals: [x=y]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	k.matches(`configmap/made-generated-\w+ created\nconfigmap/made-one created`, "apply", "-k", dir)
	k.okWith(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"listed"}}]}`, "apply", "-f", "-")
	k.ok("get", "configmap", "listed")
}

func applySelector(t *testing.T, k *kubectl) {
	file, _ := guestbook(t, k)
	k.ok("create", "namespace", k.namespace)
	k.ok("apply", "-f", file, "-l", "tier=backend")
	k.prints("service/redis\nstatefulset.apps/redis", "get", "services,statefulsets,deployments", "-o", "name")
}
