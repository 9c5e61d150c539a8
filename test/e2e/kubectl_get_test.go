package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/test/testserver"
)

var getting = []kubectlBehavior{
	{"prints the server's table", getTable},
	{"prints wide columns", getWide},
	{"prints JSON and YAML that can be applied again", getJSONAndYAML},
	{"prints jsonpath, templates and custom columns", getTemplates},
	{"prints names of several kinds", getNames},
	{"selects by label", getByLabel},
	{"selects by field", getByField},
	{"lists all namespaces", getAllNamespaces},
	{"watches changes", getWatch},
	{"pages through long lists", getChunks},
	{"gets everything of category all", getCategory},
	{"understands short names, plurals and groups", getShortNames},
	{"says what is not found", getNotFound},
	{"sorts", getSorted},
	{"shows labels as columns", getLabelColumns},
	{"gets a subresource", getSubresource},
	{"gets raw paths", getRaw},
	{"describes", getDescribe},
	{"describes with events", getDescribeEvents},
	{"lists events", getEvents},
	{"shows managed fields on demand", getManagedFields},
}

func getTable(t *testing.T, k *kubectl) {
	k.okWith(configMap("table", "a: b, c: d"), "apply", "-f", "-")
	k.matches(`^NAME +DATA +AGE\ntable +2 +\d+s\n$`, "get", "configmap", "table")
	k.matches(`^table +2 +\d+s\n$`, "get", "configmap", "table", "--no-headers")
	k.ok(args("create deployment web --image=nginx --replicas=2")...)
	k.matches(`^NAME +READY +UP-TO-DATE +AVAILABLE +AGE\nweb +0/2 +0 +0 +\d+s\n$`, "get", "deployment", "web")
}

func getWide(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx:1 --replicas=2")...)
	k.matches(`NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR\nweb +0/2 +0 +0 +\d+s +nginx +nginx:1 +app=web\n`,
		"get", "deployment", "-o", "wide")
}

func getJSONAndYAML(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", `a: "1"`), "create", "-f", "-")
	var got corev1.ConfigMap
	if err := json.Unmarshal([]byte(k.ok("get", "configmap", "c", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if got.APIVersion != "v1" || got.Kind != "ConfigMap" || got.Data["a"] != "1" || got.Namespace != k.namespace {
		t.Errorf("got %+v", got)
	}
	asYAML := k.ok("get", "configmap", "c", "-o", "yaml")
	if !strings.Contains(asYAML, `  a: "1"`) {
		t.Errorf("not the data in\n%s", asYAML)
	}
	k.okWith(asYAML, "replace", "-f", "-")
	k.printsAll(args("get configmap -o json"), `"kind": "List"`, `"name": "c"`)
}

func getTemplates(t *testing.T, k *kubectl) {
	k.okWith(configMap("c1", "a: one")+"---\n"+configMap("c2", "a: two"), "create", "-f", "-")
	k.prints("one two", "get", "configmap", "c1", "c2", "-o", `jsonpath={.items[*].data.a}`)
	k.prints("c1=one,c2=two,", "get", "configmap", "c1", "c2", "-o", `jsonpath={range .items[*]}{.metadata.name}={.data.a},{end}`)
	k.prints("c1c2", "get", "configmap", "c1", "c2", "-o", `go-template={{range .items}}{{.metadata.name}}{{end}}`)
	k.matches(`^NAME +VALUE\nc1 +one\nc2 +two\n$`, "get", "configmap", "c1", "c2", "-o", "custom-columns=NAME:.metadata.name,VALUE:.data.a")
}

func getNames(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	k.ok(args("create secret generic s --from-literal=k=v")...)
	k.prints("configmap/c\nsecret/s", "get", "configmap/c", "secret/s", "-o", "name")
}

// createLabelled creates ConfigMaps. labels maps the name of each ConfigMap to its labels.
func createLabelled(k *kubectl, labels map[string]string) {
	for name, l := range labels {
		k.okWith("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", labels: {"+l+"}}\n", "create", "-f", "-")
	}
}

func getByLabel(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "app: web, tier: front", "b": "app: web, tier: back", "c": "app: db"})
	for selector, want := range map[string]string{
		"app=web":                 "configmap/a\nconfigmap/b",
		"app=web,tier!=back":      "configmap/a",
		"app in (db,web),tier":    "configmap/a\nconfigmap/b",
		"app,!tier":               "configmap/c",
		"app notin (web),app==db": "configmap/c",
		"nosuch=label":            "",
	} {
		k.prints(want, "get", "configmap", "-l", selector, "-o", "name")
	}
	k.fails(1, "unable to parse requirement", "get", "configmap", "-l", "a=(b")
}

func getByField(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "x: one", "b": "x: one"})
	k.prints("configmap/b", "get", "configmap", "--field-selector=metadata.name=b", "-l", "x=one", "-o", "name")
	k.prints("configmap/a", "get", "configmap", "--field-selector=metadata.name!=b", "-l", "x=one", "-o", "name")
	k.ok(args("create secret generic s")...)
	k.prints("secret/s", "get", "secret", "--field-selector=type=Opaque", "-o", "name")
	k.fails(1, `"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"`, "get", "configmap", "--field-selector=data.a=b")
}

func getAllNamespaces(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "set: " + k.namespace})
	k.matches(`^NAMESPACE +NAME +DATA +AGE\n`+k.namespace+` +a +0 +\d+s\n$`, "get", "configmap", "-A", "-l", "set="+k.namespace)
	k.matches(`(?m)^default +Active +`, "get", "namespaces")
}

func getWatch(t *testing.T, k *kubectl) {
	k.okWith(configMap("w", "a: v1"), "create", "-f", "-")
	watching := k.begin("get", "configmap", "--field-selector=metadata.name=w", "--watch", "--output-watch-events",
		"-o", "jsonpath={.type}={.object.data.a} ")
	watching.await("ADDED=v1 ")
	maps := k.client.CoreV1().ConfigMaps(k.namespace)
	if _, err := maps.Patch(t.Context(), "w", "application/merge-patch+json", []byte(`{"data":{"a":"v2"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	watching.await("ADDED=v1 MODIFIED=v2 DELETED=v2 ")
}

func getChunks(t *testing.T, k *kubectl) {
	var many strings.Builder
	for i := range 23 {
		many.WriteString("---\n" + configMap("m"+string(rune('a'+i)), "a: b"))
	}
	k.okWith(many.String(), "create", "-f", "-")
	out := k.ok("get", "configmap", "--chunk-size=5", "-o", "name")
	if got := strings.Count(out, "configmap/m"); got != 23 {
		t.Errorf("got %d of 23 in pages of 5:\n%s", got, out)
	}
	verbose := k.run(t.Context(), "", "get", "configmap", "--chunk-size=5", "-v=6")
	if got := strings.Count(verbose.stderr, "continue="); got != 4 {
		t.Errorf("%d requests continue a list, want 4:\n%s", got, verbose.stderr)
	}
}

func getCategory(t *testing.T, k *kubectl) {
	file, _ := guestbook(t, k)
	k.ok("apply", "-f", file)
	out := k.ok("get", "all", "-o", "name")
	for _, name := range []string{"service/frontend", "deployment.apps/frontend", "statefulset.apps/redis", "daemonset.apps/agent",
		"job.batch/seed", "cronjob.batch/backup", "horizontalpodautoscaler.autoscaling/frontend"} {
		if !strings.Contains(out, name+"\n") {
			t.Errorf("no %s in\n%s", name, out)
		}
	}
	if strings.Contains(out, "configmap") || strings.Contains(out, "secret") {
		t.Errorf("more than the category all in\n%s", out)
	}
}

func getShortNames(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	for _, resource := range []string{"cm", "configmap", "configmaps", "ConfigMap", "configmaps.v1."} {
		k.prints("configmap/c", "get", resource, "c", "-o", "name")
	}
	k.ok(args("create deployment web --image=nginx")...)
	for _, resource := range []string{"deploy", "deployments.apps", "deployments.v1.apps"} {
		k.prints("deployment.apps/web", "get", resource, "-o", "name")
	}
}

func getNotFound(t *testing.T, k *kubectl) {
	k.fails(1, `Error from server (NotFound): configmaps "nope" not found`, "get", "configmap", "nope")
	k.fails(1, `Error from server (NotFound): deployments.apps "nope" not found`, "get", "deployment", "nope")
	k.fails(1, `error: the server doesn't have a resource type "nopes"`, "get", "nopes")
	k.ok("get", "configmap", "nope", "--ignore-not-found")
	if o := k.run(t.Context(), "", "get", "deployments"); o.code != 0 || o.stderr != "No resources found in "+k.namespace+" namespace.\n" {
		t.Errorf("an empty list: exit code %d, %q", o.code, o.stderr)
	}
}

func getSorted(t *testing.T, k *kubectl) {
	k.okWith(configMap("one", `rank: "3"`)+"---\n"+configMap("two", `rank: "1"`)+"---\n"+configMap("three", `rank: "2"`), "create", "-f", "-")
	k.prints("configmap/two\nconfigmap/three\nconfigmap/one", "get", "cm", "one", "two", "three", "--sort-by=.data.rank", "-o", "name")
}

func getLabelColumns(t *testing.T, k *kubectl) {
	createLabelled(k, map[string]string{"a": "tier: front"})
	k.matches(`^NAME +DATA +AGE +TIER\na +0 +\d+s +front\n$`, "get", "cm", "a", "-L", "tier")
	k.matches(`LABELS\na +0 +\d+s +tier=front\n$`, "get", "cm", "a", "--show-labels")
}

func getSubresource(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx --replicas=3")...)
	k.prints("Scale 3", "get", "deployment", "web", "--subresource=scale", "-o", "jsonpath={.kind} {.spec.replicas}")
	k.prints("web", "get", "deployment", "web", "--subresource=status", "-o", "jsonpath={.metadata.name}")
}

func getRaw(t *testing.T, k *kubectl) {
	k.prints("ok", "get", "--raw", "/readyz")
	k.printsAll(args("get --raw /apis/apps/v1"), `"kind":"APIResourceList"`, `"name":"deployments/scale"`)
	k.printsAll([]string{"get", "--raw", "/api/v1/namespaces/" + k.namespace}, `"kind":"Namespace"`, `"name":"`+k.namespace+`"`)
	if !testserver.InControlPlane() { // only the root control plane serves the metrics of the process
		k.printsAll(args("get --raw /metrics"), "apiserver_request_total")
	}
	k.fails(1, "the server could not find the requested resource", "get", "--raw", "/nope")
}

func getDescribe(t *testing.T, k *kubectl) {
	file, _ := guestbook(t, k)
	k.ok("apply", "-f", file)
	k.printsAll(args("describe deployment frontend"), "Replicas:               3 desired", "Image:      nginx:1.27", "RollingUpdateStrategy:  0 max unavailable, 1 max surge")
	k.printsAll(args("describe service frontend"), "Type:                     ClusterIP", "Port:                     http  80/TCP")
	k.printsAll(args("describe ingress guestbook"), "guestbook.example.com", "frontend:http")
	k.printsAll(args("describe configmap guestbook"), "greeting:\n----\nhello")
	k.printsAll(args("describe secret guestbook"), "password:  28 bytes")
	k.printsAll(args("describe cronjob backup"), "Schedule:                      17 3 * * *")
	k.printsAll(args("describe hpa frontend"), "Min replicas:                                          2")
	k.printsAll(args("describe networkpolicy redis"), "PodSelector:     tier=backend")
	k.printsAll(args("describe rolebinding guestbook"), "ServiceAccount  guestbook")
	k.printsAll(args("describe pvc uploads"), "StorageClass:  standard")
	k.printsAll([]string{"describe", "namespace", k.namespace}, "Status:       Active", "Resource Quotas")
}

func getDescribeEvents(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	c, err := k.client.CoreV1().ConfigMaps(k.namespace).Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recordEvent(t, k, c)
	k.matches(`(?s)Events:.*Warning +Odd +\S+ +tester +it looks odd`, "describe", "configmap", "c")
}

// recordEvent creates an event about a ConfigMap, as a controller would.
func recordEvent(t *testing.T, k *kubectl, about *corev1.ConfigMap) {
	t.Helper()
	now := metav1.Now()
	_, err := k.client.CoreV1().Events(k.namespace).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: about.Name + "."},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: about.Namespace, Name: about.Name, UID: about.UID},
		Type:           "Warning", Reason: "Odd", Message: "it looks odd", Source: corev1.EventSource{Component: "tester"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func getEvents(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	c, err := k.client.CoreV1().ConfigMaps(k.namespace).Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recordEvent(t, k, c)
	k.matches(`LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n\S+ +Warning +Odd +configmap/c +it looks odd\n`, "get", "events")
	k.matches(`Warning +Odd +ConfigMap/c +it looks odd\n`, "events", "--for=configmap/c")
	k.prints("1", "get", "events", "--field-selector=involvedObject.name=c,reason=Odd", "-o", "jsonpath={.items[*].count}")
}

func getManagedFields(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	if out := k.ok("get", "cm", "c", "-o", "yaml"); strings.Contains(out, "managedFields") {
		t.Errorf("managed fields in\n%s", out)
	}
	k.printsAll(args("get cm c -o yaml --show-managed-fields"), "manager: kubectl-create", "operation: Update", "f:data:")
}
