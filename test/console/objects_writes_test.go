package console

import (
	"strings"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func testCreate(t *testing.T, f *fixture) {
	f.namespace(t, "create")
	p := f.open(t, "/console/objects/core/configmaps?namespace=create")
	p.click("Create")
	p.await("Create: ConfigMap", "namespace: create")
	p.edit("The new object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: x\n")
	p.clickInDialog("Create")
	p.await("Tabs are not allowed as indentation")
	p.screenshot("create-syntax")

	p.expect("status of 400")
	p.edit("The new object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: create\ndatum:\n  color: blue\n")
	p.clickInDialog("Create")
	p.await(`unknown field "datum"`)
	p.awaitMissing("Tabs are not allowed")
	p.screenshot("create-unknown")

	p.edit("The new object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: create\ndata:\n  color: blue\n")
	p.clickInDialog("Create")
	p.awaitText(`location.pathname`, "/console/objects/core/configmaps/create/settings")
	p.awaitText(`document.querySelector("h1").innerText`, "settings")
	created := f.get(t, decodeObjects(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: create}}")[0])
	if color, _, _ := unstructured.NestedString(created.Object, "data", "color"); color != "blue" {
		t.Errorf("the color is %q", color)
	}
	if manager := created.GetManagedFields()[0].Manager; manager != "mainstay-console" {
		t.Errorf("the manager is %q", manager)
	}

	// If neither the list nor the text specifies a namespace, the object is created in the namespace default.
	p.goTo("/console/objects/core/configmaps")
	p.click("Create")
	p.await("namespace: default")
	p.edit("The new object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n")
	p.clickInDialog("Create")
	p.awaitText(`location.pathname`, "/console/objects/core/configmaps/default/settings")
}

// completions is a JavaScript expression for the offered completions, separated by spaces.
const completions = `[...document.querySelectorAll(".editor")].flatMap((e) => [...(e.shadowRoot?.querySelectorAll(".cm-tooltip-autocomplete .cm-completionLabel") ?? [])]).map((e) => e.textContent).join(" ")`

// typeText types a text into the focused editor, key by key.
func (p *page) typeText(text string) {
	p.t.Helper()
	for _, key := range text {
		p.press(input.Key(key))
	}
}

func testCompletion(t *testing.T, f *fixture) {
	f.createGadgets(t)
	p := f.open(t, "/console/objects/apps/deployments?namespace=default")
	p.click("Create")
	p.edit("The new object", "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  ")
	p.typeText("repl")
	p.complete()
	p.awaitTrue(completions + `.split(" ").includes("replicas")`)
	p.screenshot("completion")
	p.clickCompletion("replicas")
	p.await("replicas: ")
	p.awaitText(completions, "")

	p.edit("The new object", "spec:\n  template:\n    spec:\n      containers:\n      - name: main\n        ")
	p.typeText("imageP")
	p.complete()
	p.awaitTrue(completions + `.split(" ").includes("imagePullPolicy")`)
	p.check(p.KeyActions().Press(input.Escape).Do())
	p.await("Create: Deployment") // Escape closes the completions, and not the dialog

	// The editor completes values of enumerations and kinds of custom resources.
	p.goTo("/console/objects/objects.example.com/gadgets")
	p.click("Create")
	p.edit("The new object", "apiVersion: objects.example.com/v1\nkind: Gadget\nspec:\n  color: ")
	p.complete()
	p.awaitTrue(completions + `.split(" ").includes("green")`)
}

// complete presses Ctrl+Space until the editor offers completions. The schema may arrive after the first attempt.
func (p *page) complete() {
	p.t.Helper()
	p.poll(func() bool {
		if p.eval(completions) != "" {
			return true
		}
		p.check(p.KeyActions().Press(input.ControlLeft).Type(input.Space).Release(input.ControlLeft).Do())
		return false
	}, func() string { return "there are no completions" })
}

// clickCompletion clicks an offered completion. Pressing Enter is not reliable: within 75 ms after the editor
// has offered completions, it treats Enter as a part of the text.
func (p *page) clickCompletion(label string) {
	p.t.Helper()
	element, err := p.Timeout(pageTimeout).ElementByJS(rod.Eval(`(label) => [...document.querySelectorAll(".editor")]
		.flatMap((e) => [...(e.shadowRoot?.querySelectorAll(".cm-tooltip-autocomplete li") ?? [])])
		.find((e) => e.querySelector(".cm-completionLabel")?.textContent === label)`, label))
	p.check(err)
	p.check(element.Click(proto.InputMouseButtonLeft, 1))
}

// manifest returns the YAML of an object as the editor shows it.
func manifest(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func testEdit(t *testing.T, f *fixture) {
	f.namespace(t, "edit")
	object := f.create(t, deployment("edit", "web", 3))
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	p.click("Edit")
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 3", "replicas: 4", 1))
	p.click("Review changes")
	p.await("Changes", "replicas: 3", "replicas: 4")
	p.screenshot("edit-review")
	if replicas, _, _ := unstructured.NestedInt64(f.get(t, object).Object, "spec", "replicas"); replicas != 3 {
		t.Errorf("the review has changed the object: %d replicas", replicas)
	}
	p.click("Continue editing")
	p.await("replicas: 4")
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 3", "replicas: 6", 1))
	p.click("Review changes")
	p.await("replicas: 6")
	p.click("Save")
	p.await("web was saved.", "replicas: 6", "mainstay-console")
	if replicas, _, _ := unstructured.NestedInt64(f.get(t, object).Object, "spec", "replicas"); replicas != 6 {
		t.Errorf("the object has %d replicas", replicas)
	}
	p.click("Edit")
	p.click("Cancel")
	p.awaitTrue(`document.querySelector(".legend") !== null`)

	// A JavaScript number cannot represent this size.
	f.createGadgets(t)
	object = f.create(t, gadget("edit", "huge", 1, "red"))
	f.patch(t, object, "creator", `{"spec":{"size":9007199254740993}}`)
	object = f.get(t, object)
	p = f.open(t, objectsPath(object)+"?tab=YAML") // a new page discovers the kind
	p.await("size: 9007199254740993")
	p.click("Edit")
	p.edit("Edit huge", strings.Replace(manifest(t, object), "color: red", "color: green", 1))
	p.click("Review changes")
	p.await("color: green")
	p.click("Save")
	p.await("huge was saved.", "size: 9007199254740993")
	if size, _, _ := unstructured.NestedInt64(f.get(t, object).Object, "spec", "size"); size != 9007199254740993 {
		t.Errorf("the object has the size %d", size)
	}
}

// diagnostics is a JavaScript expression for the text of the lines that the editor marks as wrong.
const diagnostics = `[...document.querySelectorAll(".editor")].flatMap((e) => [...(e.shadowRoot?.querySelectorAll(".cm-lintRange-error, .cm-lintPoint-error") ?? [])]).map((e) => e.closest(".cm-line").textContent.trim()).join()`

// hoverMark moves the mouse pointer to the first marked error, and repeats this until a tooltip contains a
// text, because the syntax check closes tooltips.
func (p *page) hoverMark(text string) {
	p.t.Helper()
	position := `() => {
		const mark = [...document.querySelectorAll(".editor")].map((e) => e.shadowRoot?.querySelector(".cm-lintRange-error")).find(Boolean);
		if (!mark) return null;
		mark.scrollIntoView({ block: "center" });
		const { x, y, width, height } = mark.getBoundingClientRect();
		return [x + width / 2, y + height / 2];
	}`
	shown := `[...document.querySelectorAll(".editor")].map((e) => e.shadowRoot?.querySelector(".cm-tooltip-lint")?.textContent ?? "").join()`
	p.poll(func() bool {
		found, err := p.Eval(position)
		if err != nil || found.Value.Nil() {
			return false
		}
		p.check(p.Mouse.MoveTo(proto.NewPoint(1, 1)))
		p.check(p.Mouse.MoveTo(proto.NewPoint(found.Value.Arr()[0].Num(), found.Value.Arr()[1].Num())))
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
			if strings.Contains(p.eval(shown), text) {
				return true
			}
		}
		return false
	}, func() string { return "no tooltip contains " + text })
}

func testEditErrors(t *testing.T, f *fixture) {
	f.namespace(t, "editerrors")
	object := f.create(t, deployment("editerrors", "web", 3))
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	p.click("Edit")
	p.expect("status of 422")
	p.expect("status of 400")
	wrong := strings.Replace(manifest(t, object), "replicas: 3", "replicas: -3", 1)
	p.edit("Edit web", wrong)
	p.click("Review changes")
	p.await("must be greater than or equal to 0")
	p.awaitText(diagnostics, "replicas: -3")
	p.awaitText(`document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-gutter-lint .cm-lint-marker-error").length`, "1")
	p.screenshot("edit-invalid")
	// The syntax check, which runs after a delay, keeps the mark.
	p.hoverMark("greater than or equal to 0")
	p.awaitText(diagnostics, "replicas: -3")

	p.edit("Edit web", strings.Replace(wrong, "replicas: -3", "replicas: 3\n  replica: 3", 1))
	p.awaitText(diagnostics, "")
	p.click("Review changes")
	p.await(`unknown field "spec.replica"`)
	p.edit("Edit web", "a: [")
	p.awaitTrue(diagnostics + ` !== ""`)
	p.click("Review changes")
	p.await("Flow sequence in block collection")
}

// marked returns a JavaScript expression for the texts that the editors mark with a severity.
func marked(severity string) string {
	return `[...document.querySelectorAll(".editor")].flatMap((e) => [...(e.shadowRoot?.querySelectorAll(".cm-lintRange-` + severity + `") ?? [])]).map((e) => e.textContent).join()`
}

// testValidation checks the problems that the editor finds by means of the schema of the kind.
func testValidation(t *testing.T, f *fixture) {
	f.createGadgets(t)
	p := f.open(t, "/console/objects/apps/deployments?namespace=default")
	p.click("Create")
	p.await("Create: Deployment")
	p.edit("The new object", `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, creationTimestamp: null, labels: {version: 2}}
spec:
  replicas: three
  replica: 3
  template:
    spec:
      containers:
      - name: main
        imagePullPolicy: Sometimes
        ports: [{hostPort: 80}]
`)
	p.awaitText(marked("error"), "2,spec,three,Sometimes,hostPort")
	p.awaitText(marked("warning"), "replica")
	p.awaitText(`document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-gutter-lint .cm-lint-marker-warning").length`, "1")
	p.screenshot("validation")
	p.hoverMark("must be a string, not an integer")
	p.screenshot("validation-tooltip")
	// The problems do not disable the button, because only the server rejects objects.
	p.expect("status of 400")
	p.clickInDialog("Create")
	p.await("cannot unmarshal")

	// Validate a custom resource.
	p.goTo("/console/objects/objects.example.com/gadgets")
	p.click("Create")
	p.edit("The new object", "apiVersion: objects.example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec:\n  color: pink\n")
	p.awaitText(marked("error"), "pink")
	p.edit("The new object", "apiVersion: objects.example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec:\n  color: green\n")
	p.awaitText(marked("error"), "")

	// Validate an existing object.
	f.namespace(t, "validation")
	p.goTo(objectsPath(f.create(t, deployment("validation", "web", 3))) + "?tab=YAML")
	p.click("Edit")
	p.edit("Edit web", "apiVersion: apps/v1\nkind: Deployment\nspec: {paused: 1}\n")
	p.awaitText(marked("error"), "spec,1")

	// The admission trace selects the schema by the kind in the text.
	p.goTo("/console/admission")
	p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {port: 80}\n")
	p.awaitText(marked("error"), "80")
	p.edit("Object", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {port: 81}\n")
	p.awaitText(marked("error"), "81")
	p.screenshot("validation-trace")
}

func testEditConflict(t *testing.T, f *fixture) {
	f.namespace(t, "conflict")
	object := f.create(t, deployment("conflict", "web", 3))
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	p.click("Edit")
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 3", "replicas: 4", 1))
	f.patch(t, object, "somebody", `{"metadata":{"labels":{"team":"blue"}}}`)
	p.expect("status of 409")
	p.click("Review changes")
	p.await("the object has been modified", "The object has changed since you began to edit: somebody, ", "team: blue")
	p.screenshot("edit-conflict")
	p.click("Merge my changes into the current object")
	p.awaitMissing("The object has changed")
	p.await("replicas: 4")
	p.click("Review changes")
	p.await("Changes", "replicas: 4")
	p.click("Save")
	p.await("web was saved.", "replicas: 4")
	saved := f.get(t, object)
	if replicas, _, _ := unstructured.NestedInt64(saved.Object, "spec", "replicas"); replicas != 4 || saved.GetLabels()["team"] != "blue" {
		t.Errorf("the object has %d replicas and the labels %v", replicas, saved.GetLabels())
	}

	// Both sides change the same field.
	p.click("Edit")
	p.edit("Edit web", strings.Replace(manifest(t, saved), "replicas: 4", "replicas: 6", 1))
	f.patch(t, object, "somebody", `{"spec":{"replicas":5}}`)
	p.click("Review changes")
	p.await("The object has changed since you began to edit")
	p.click("Merge my changes into the current object")
	p.awaitMissing("The object has changed")
	p.click("Review changes")
	p.await("You and others changed these fields. Your values replace theirs: spec.replicas.", "replicas: 5", "replicas: 6")
	p.click("Save")
	p.await("web was saved.", "replicas: 6")
}

func testDelete(t *testing.T, f *fixture) {
	f.namespace(t, "delete")
	object, replicaSet := f.workload(t, "delete", "web")
	f.create(t, strings.Replace("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shared\n  namespace: delete\n  ownerReferences: OWNERS\n", "OWNERS",
		strings.TrimSuffix(ownedBy(object), "]")+", {apiVersion: v1, kind: ServiceAccount, name: default, uid: "+string(f.get(t, decodeObjects(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: delete}}")[0]).GetUID())+"}]", 1))
	p := f.open(t, objectsPath(object))
	p.click("Delete")
	p.await("Delete Deployment web", "3 other objects are deleted:", "ReplicaSet web-7d4b9", "Pod web-7d4b9-x1", "Pod web-7d4b9-x2", "These dependents remain, because another owner remains: ConfigMap shared.")
	p.screenshot("delete")
	f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: added, namespace: delete, ownerReferences: "+ownedBy(object)+"}\n")
	p.await("4 other objects are deleted:", "ConfigMap added") // the preview is updated when objects change
	p.clickInDialog("Cancel")
	p.awaitTrue(`document.querySelector("dialog") === null`)
	p.click("Delete")
	p.await("4 other objects are deleted:")
	p.clickInDialog("Delete")
	p.await("Deployment web was deleted.")
	p.awaitText(`location.pathname + location.search`, "/console/objects/apps/deployments?namespace=delete")
	f.awaitMissing(t, object)
	f.awaitMissing(t, replicaSet)

	// An object with a finalizer is not deleted immediately.
	f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: waiting\n  namespace: delete\n  finalizers: [example.com/wait]\n")
	p.goTo("/console/objects/core/configmaps/delete/waiting")
	p.click("Delete")
	p.await("Delete ConfigMap waiting", "No other object is deleted.")
	p.clickInDialog("Delete")
	p.await("The object is being deleted. It waits for the finalizers: example.com/wait.")

	// With the policy Orphan, dependents remain.
	object, replicaSet = f.workload(t, "delete", "kept")
	p.goTo(objectsPath(object))
	p.click("Delete")
	p.await("3 other objects are deleted:")
	p.check(p.find(`//dialog//select`).Select([]string{"Keep"}, true, "text"))
	p.awaitMissing("other objects are deleted")
	p.clickInDialog("Delete")
	f.awaitMissing(t, object)
	f.get(t, replicaSet)
}

func testScaleAndRestart(t *testing.T, f *fixture) {
	f.namespace(t, "scale")
	object := f.create(t, deployment("scale", "web", 3))
	p := f.open(t, objectsPath(object))
	p.click("Scale")
	p.await("Scale web")
	p.fill("Replicas", "4")
	p.await("web was scaled to 4.")
	p.awaitText(`[...document.querySelectorAll("dl > div")].find((e) => e.querySelector("dt").innerText === "replicas").querySelector("dd").innerText`, "4")
	p.awaitTrue(`document.querySelector("dialog") === null`)
	p.click("Restart")
	p.await("The controller replaces all pods")
	p.clickInDialog("Restart")
	p.await("web restarts.")
	annotations, _, _ := unstructured.NestedStringMap(f.get(t, object).Object, "spec", "template", "metadata", "annotations")
	if annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("the annotations of the template are %v", annotations)
	}
}
