package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-rod/rod/lib/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func listOptions(limit int64) metav1.ListOptions { return metav1.ListOptions{Limit: limit} }

func testSummary(t *testing.T, f *fixture) {
	f.namespace(t, "summary")
	object, replicaSet := f.workload(t, "summary", "web")
	p := f.open(t, objectsPath(object))
	p.await("Deployment, apps/v1", "app=web", "Conditions", "MinimumReplicasAvailable", "ProgressDeadlineExceeded", "Specification", "Status", string(object.GetUID()))
	p.screenshot("summary")
	p.awaitMissing("example.com/color=blue")
	f.patch(t, object, "labeler", `{"metadata":{"labels":{"example.com/color":"blue"}}}`)
	p.await("example.com/color=blue")
	p.goTo(objectsPath(replicaSet))
	p.await("Deployment web (controller)")
	p.click("Deployment web")
	p.awaitText(`document.querySelector("h1").innerText`, "web")
	p.click("summary") // the namespace
	p.awaitText(`location.pathname`, "/console/objects/core/namespaces/-/summary")
	p.await("Namespace, v1")
}

// hoverLine moves the mouse pointer to the line of an editor that contains a text.
func (p *page) hoverLine(text string) {
	p.t.Helper()
	script := `(text) => {
		for (const editor of document.querySelectorAll(".editor"))
			for (const line of editor.shadowRoot?.querySelectorAll(".cm-line") ?? [])
				if (line.textContent.includes(text)) { line.scrollIntoView({ block: "center" }); const { x, y, height } = line.getBoundingClientRect(); return [x + 30, y + height / 2] }
		return null
	}`
	var x, y float64
	p.poll(func() bool {
		found, err := p.Eval(script, text)
		if err != nil || found.Value.Nil() {
			return false
		}
		x, y = found.Value.Arr()[0].Num(), found.Value.Arr()[1].Num()
		return true
	}, func() string { return "no editor contains a line with " + text })
	p.check(p.Mouse.MoveTo(proto.NewPoint(1, 1)))
	p.check(p.Mouse.MoveTo(proto.NewPoint(x, y)))
}

func testFieldManagers(t *testing.T, f *fixture) {
	f.namespace(t, "managers")
	f.apply(t, "deployer", deployment("managers", "web", 3))
	object := f.apply(t, "labeler", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: managers, labels: {team: blue}}}")
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	p.await("replicas: 3", "team: blue")
	p.awaitText(`[...document.querySelectorAll(".legend .owner")].map((e) => e.innerText).join(" ")`, "deployer labeler")
	// The color beside a line is the color of the line's field manager in the legend.
	colors := `(() => {
		const root = document.querySelector(".editor").shadowRoot;
		const markers = [...root.querySelectorAll(".cm-owners .cm-owner")].map((e) => [Math.round(e.getBoundingClientRect().y), getComputedStyle(e).backgroundColor]);
		const colorAt = (text) => {
			const line = [...root.querySelectorAll(".cm-line")].find((e) => e.textContent.includes(text)).getBoundingClientRect();
			return markers.find(([y]) => Math.abs(y - line.y) < 4)?.[1] ?? "none";
		};
		const legend = [...document.querySelectorAll(".legend .owner")].map((e) => getComputedStyle(e).borderLeftColor);
		return [colorAt("replicas:") === legend[0], colorAt("team:") === legend[1], colorAt("resourceVersion:"), legend[0] !== legend[1]].join(" ");
	})()`
	p.awaitText(colors, "true true none true")
	p.hoverLine("team: blue")
	p.await("labeler (Apply), ")
	p.screenshot("yaml-managers")
	p.hoverLine("replicas: 3")
	p.await("deployer (Apply), ")
	// An update changes the text, but keeps the scroll position.
	scroller := `document.querySelector(".editor").shadowRoot.querySelector(".cm-scroller")`
	p.awaitTrue(`(` + scroller + `.scrollTop = 60) === 60 && ` + scroller + `.scrollTop === 60`)
	f.patch(t, object, "scaler", `{"spec":{"replicas":7}}`)
	p.await("replicas: 7", "scaler")
	p.awaitText(scroller+`.scrollTop`, "60")
	p.hoverLine("replicas: 7")
	p.await("scaler (Update), ")
}

func testApplied(t *testing.T, f *fixture) {
	f.namespace(t, "applied")
	object := f.apply(t, "alice", deployment("applied", "web", 3))
	p := f.open(t, objectsPath(object)+"?tab=Managers")
	p.await("All fields still have the values that alice wrote.", "replicas: 3")
	f.patch(t, object, "bob", `{"spec":{"replicas":5}}`)
	p.await("Left: the values that alice wrote.", "replicas: 3", "replicas: 5")
	p.awaitTrue(`document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-changedLine").length > 0`)
	p.screenshot("applied")
	p.click("bob")
	p.await("All fields still have the values that bob wrote.", "replicas: 5")
	p.awaitMissing("replicas: 3")
}

func testEvents(t *testing.T, f *fixture) {
	f.namespace(t, "events")
	object := f.create(t, deployment("events", "web", 3))
	p := f.open(t, objectsPath(object)+"?tab=Events")
	p.await("There are no events about this object.")
	f.create(t, event("events", "scaled", "apps/v1", "Deployment", "web", string(object.GetUID()), "Normal", "ScalingReplicaSet", "Scaled up.")+
		event("events", "failed", "apps/v1", "Deployment", "web", string(object.GetUID()), "Warning", "FailedCreate", "Quota exceeded.")+
		event("events", "other", "apps/v1", "Deployment", "web", "00000000-0000-0000-0000-000000000000", "Warning", "Unrelated", "Another object."))
	p.await("ScalingReplicaSet", "FailedCreate", "Quota exceeded.", "Warning")
	p.awaitMissing("Unrelated")
	p.screenshot("events")
	p.goTo("/console/")
	p.await("Warnings", "FailedCreate")
}

const settings = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: %[1]s}
data: {color: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials, namespace: %[1]s}
stringData: {password: secret}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s}
spec: {selector: {app: web}, ports: [{port: 80}]}
`

// node returns an XPath for a node of a graph.
func node(kind, name string) string {
	return fmt.Sprintf(`//*[local-name()="g" and @aria-label=%q]`, kind+" "+name)
}

func testRelations(t *testing.T, f *fixture) {
	f.namespace(t, "relations")
	service := f.create(t, fmt.Sprintf(settings, "relations"))
	object, replicaSet := f.workload(t, "relations", "web")
	p := f.open(t, objectsPath(object)+"?tab=Relations")
	for _, xpath := range []string{node("Deployment", "web"), node("ReplicaSet", "web-7d4b9"), node("Pod", "web-7d4b9-x1"), node("Pod", "web-7d4b9-x2")} {
		p.find(xpath)
	}
	p.await("the garbage collector deletes the 3 outlined dependents", "Selected pods")
	p.awaitText(`document.querySelectorAll(".graph .edge").length`, "3")
	p.screenshot("relations")
	f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: added, namespace: relations, ownerReferences: "+ownedBy(object)+"}\n")
	p.find(node("ConfigMap", "added")) // the graph is updated when objects change
	p.await("the garbage collector deletes the 4 outlined dependents")
	p.clickXPath(node("ReplicaSet", "web-7d4b9"))
	p.awaitText(`location.pathname`, objectsPath(replicaSet))
	p.awaitText(`document.querySelector("h1").innerText`, "web-7d4b9")

	p.goTo("/console/objects/core/pods/relations/web-7d4b9-x1?tab=Relations")
	p.await("References", "ConfigMap settings", "Secret credentials", "ServiceAccount default", "Selected by", "Service web", "Deployment web")
	p.await("spec.containers[0].envFrom[0].configMapRef", "spec.volumes[0].configMap", "spec.containers[0].env[0].valueFrom.secretKeyRef")
	p.find(node("Deployment", "web")) // the owner of the owner
	p.screenshot("relations-pod")
	p.click("ConfigMap settings")
	p.awaitText(`location.pathname`, "/console/objects/core/configmaps/relations/settings")

	p.goTo(objectsPath(service) + "?tab=Relations")
	p.await("The object has neither owners nor dependents.", "Selected pods", "Pod web-7d4b9-x1", "Pod web-7d4b9-x2")
	p.click("Pod web-7d4b9-x2")
	p.awaitText(`location.pathname`, "/console/objects/core/pods/relations/web-7d4b9-x2")
}

func testDeletedObject(t *testing.T, f *fixture) {
	f.namespace(t, "deleted")
	object := f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: deleted, finalizers: [example.com/wait]}\n")
	p := f.open(t, objectsPath(object))
	p.await("example.com/wait")
	f.delete(t, object)
	p.await("The object is being deleted. It waits for the finalizers: example.com/wait.")
	f.patch(t, object, "finalizer", `{"metadata":{"finalizers":null}}`)
	p.await("The object was deleted. The page shows its last state.")
	p.awaitTrue(`![...document.querySelectorAll("button")].some((button) => button.innerText === "Delete")`)
	p.screenshot("deleted")
	// The page shows a new object with the same name instead of the deleted one.
	f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: deleted, labels: {again: yes-again}}\n")
	p.await("again=yes-again")
	p.awaitMissing("The object was deleted.")

	// The history of an object that no longer exists is shown.
	f.delete(t, object)
	f.awaitMissing(t, object)
	p.expect("status of 404")
	p.signIn(objectsPath(object))
	p.await("not found", "Deleted", "Created")
	p.screenshot("deleted-history")
}

func testMap(t *testing.T, f *fixture) {
	f.namespace(t, "map")
	f.create(t, fmt.Sprintf(settings, "map"))
	f.workload(t, "map", "web")
	p := f.open(t, "/console/map?namespace=map")
	p.find(node("Deployment", "web"))
	p.find(node("Service", "web"))
	p.find(node("Secret", "credentials"))
	p.awaitTrue(`document.querySelectorAll(".graph .edge").length >= 3 + 2 + 6`) // owners, selectors, references of pods
	p.screenshot("map")
	p.fill("Kinds", "deployment, replicaset, pods")
	p.awaitText(`document.querySelectorAll(".graph .node").length`, "4")
	p.awaitText(`document.querySelectorAll(".graph .edge").length`, "3")
	p.fill("Kinds", "")
	p.fill("Label selector", "app=web")
	p.awaitText(`[...document.querySelectorAll(".graph .node")].map((e) => e.getAttribute("aria-label")).sort().join()`, "Deployment web,Pod web-7d4b9-x1,Pod web-7d4b9-x2,ReplicaSet web-7d4b9")
	p.fill("Label selector", "app notin (none), !missing, app")
	p.awaitText(`document.querySelectorAll(".graph .node").length`, "4")
	p.fill("Label selector", "app=none")
	p.await("No object in the namespace map matches.")
	p.fill("Label selector", "app in (web")
	p.await(`The label selector has nothing where a closing parenthesis is expected.`)
	p.fill("Label selector", "")
	p.fill("Kinds", "Service Pod")
	p.awaitText(`document.querySelectorAll(".graph .node").length`, "3")
	if search := p.eval(`location.search`); !strings.Contains(search, "kinds=Service") {
		t.Errorf("the query of the URL is %q", search)
	}
	p.clickXPath(node("Service", "web"))
	p.awaitText(`location.pathname`, "/console/objects/core/services/map/web")

	// The map is updated when objects change, and the focused node keeps the focus.
	p.goTo("/console/map?namespace=map&kinds=Deployment,ConfigMap")
	p.find(node("ConfigMap", "settings"))
	focus := `[...document.querySelectorAll(".graph .node")].find((e) => e.getAttribute("aria-label") === "ConfigMap settings")`
	p.awaitTrue(`(` + focus + `.focus(), document.activeElement === ` + focus + `)`)
	p.awaitTrue(`(window.focusedNode = ` + focus + `) !== undefined`)
	added := f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: added, namespace: map}\n")
	p.find(node("ConfigMap", "added"))
	p.awaitTrue(`document.activeElement === ` + focus + ` && window.focusedNode === ` + focus)
	f.delete(t, added)
	p.awaitTrue(`![...document.querySelectorAll(".graph .node")].some((e) => e.getAttribute("aria-label") === "ConfigMap added")`)

	// The map omits unconnected objects first.
	f.namespace(t, "map-large")
	f.createMany(t, "map-large", 300)
	f.workload(t, "map-large", "web")
	p.goTo("/console/map?namespace=map-large")
	p.find(node("Deployment", "web"))
	p.await("The map omits")
}
