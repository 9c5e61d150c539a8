package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/proto"

	"mainstay.dev/mainstay/test/testserver"
)

// TestObjects tests the pages that show lists and objects, with one server and one browser.
func TestObjects(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"List", testList},
		{"ListFilters", testListFilters},
		{"ListOfCustomResources", testListOfCustomResources},
		{"ListWithOwnAge", testListWithOwnAge},
		{"ListWithoutTables", testListWithoutTables},
		{"LaterDefinition", testLaterDefinition},
		{"ListOfEvents", testListOfEvents},
		{"ListErrors", testListErrors},
		{"LongList", testLongList},
		{"Summary", testSummary},
		{"FieldManagers", testFieldManagers},
		{"Applied", testApplied},
		{"Events", testEvents},
		{"Relations", testRelations},
		{"DeletedObject", testDeletedObject},
		{"Create", testCreate},
		{"Completion", testCompletion},
		{"Edit", testEdit},
		{"EditErrors", testEditErrors},
		{"Validation", testValidation},
		{"EditConflict", testEditConflict},
		{"EditDuringReview", testEditDuringReview},
		{"SessionEnds", testSessionEnds},
		{"Delete", testDelete},
		{"ScaleAndRestart", testScaleAndRestart},
		{"Map", testMap},
		{"LongNames", testLongNames},
		{"SpecialCharacters", testSpecialCharacters},
		{"SelectorCharacters", testSelectorCharacters},
		{"DeletedNamespace", testDeletedNamespace},
		{"OldRevision", testOldRevision},
		{"Theme", testTheme},
		{"Keyboard", testKeyboard},
		{"NarrowPage", testNarrowPage},
		{"ServerRestart", testServerRestart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, f) })
	}
}

// listed is a JavaScript expression for the names of the rendered objects, separated by spaces.
const listed = `[...document.querySelectorAll(".rows tbody a")].map((a) => a.innerText).join(" ")`

// row returns a JavaScript expression for the cells of an object's row, separated by "|".
func row(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".rows tbody tr")].filter((tr) => tr.querySelector("a")?.innerText === %q).map((tr) => [...tr.cells].map((td) => td.innerText).join("|"))[0]`, name)
}

// headings is a JavaScript expression for the column headings, separated by "|".
const headings = `[...document.querySelectorAll(".rows th")].map((th) => th.innerText.trim()).join("|")`

func testList(t *testing.T, f *fixture) {
	f.namespace(t, "list")
	web := f.create(t, deployment("list", "web", 3))
	p := f.open(t, "/console/objects/apps/deployments?namespace=list")
	p.awaitText(headings, "Name|Ready|Up-to-date|Available|Age")
	p.awaitText(listed, "web")
	if got := p.eval(row("web")); !strings.HasPrefix(got, "web|0/3|0|0|") {
		t.Errorf("the row of web is %q", got)
	}
	p.await("1 object")

	f.create(t, deployment("list", "api", 1))
	p.awaitText(listed, "api web") // in the server's order
	f.patch(t, web, "scaler", `{"spec":{"replicas":5}}`)
	p.awaitTrue(row("web") + `.startsWith("web|0/5|")`)
	p.screenshot("list")
	f.delete(t, web)
	p.awaitText(listed, "api")

	p.goTo("/console/objects/apps/deployments?namespace=empty")
	p.await("There are no objects of the kind Deployment in the namespace empty.", "0 objects")
	p.screenshot("empty")
}

func testListFilters(t *testing.T, f *fixture) {
	f.namespace(t, "filters")
	f.namespace(t, "filters-other")
	f.create(t, deployment("filters", "front", 3)+deployment("filters", "back", 10)+deployment("filters", "middle", 2)+deployment("filters-other", "front-other", 1))
	p := f.open(t, "/console/objects/apps/deployments")
	p.await("Namespace", "front-other")
	p.fill("Text", "filters FRONT")
	p.awaitText(listed, "front-other front") // in the server's order
	p.fill("Namespace", "filters")
	p.awaitText(listed, "front")
	p.fill("Text", "")
	p.awaitText(listed, "back front middle")
	p.fill("Label selector", "app in (front,back)")
	p.awaitText(listed, "back front")
	p.fill("Field selector", "metadata.name!=back")
	p.awaitText(listed, "front")
	p.fill("Field selector", "")
	p.fill("Label selector", "app=none")
	p.await("No object matches the filters.")
	p.fill("Label selector", "")
	p.awaitText(listed, "back front middle")

	p.click("Ready")
	p.awaitText(listed, "middle front back") // 0/2, 0/3, 0/10
	p.awaitText(`document.querySelector("th[aria-sort=ascending]").innerText.trim()`, "Ready ↑")
	p.click("Ready ↑")
	p.awaitText(listed, "back front middle")
	p.awaitText(`document.querySelector("th[aria-sort=descending]").innerText.trim()`, "Ready ↓")
	p.fill("Text", "filters")
	p.fill("Label selector", "app!=front")
	p.awaitText(listed, "back middle")
	p.screenshot("filters")

	// The URL contains the complete state of the page.
	link := p.eval(`location.pathname + location.search`)
	p.signIn(link)
	p.awaitText(listed, "back middle")
	p.awaitText(`document.querySelector("th[aria-sort=descending]").innerText.trim()`, "Ready ↓")
	p.click("Ready ↓")
	p.awaitTrue(`document.querySelector("th[aria-sort=descending]") === null`)
}

const gadgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.objects.example.com}
spec:
  group: objects.example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget, singular: gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, minimum: 1}
              color: {type: string, enum: [red, green], description: The color of the gadget.}
              note: {type: string}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color, description: The color of the gadget.}
    - {name: Note, type: string, jsonPath: .spec.note, priority: 1}
`

// createGadgets creates the definition of the kind Gadget, unless it exists.
func (f *fixture) createGadgets(t *testing.T) {
	t.Helper()
	f.apply(t, "creator", gadgets)
	testserver.Eventually(t, pageTimeout, func() error {
		_, err := f.resource(decodeObjects(t, "{apiVersion: objects.example.com/v1, kind: Gadget, metadata: {namespace: default}}")[0]).List(t.Context(), listOptions(1))
		return err
	})
}

func gadget(namespace, name string, size int, color string) string {
	return fmt.Sprintf("apiVersion: objects.example.com/v1\nkind: Gadget\nmetadata: {name: %s, namespace: %s}\nspec: {size: %d, color: %s, note: note of %s}\n---\n", name, namespace, size, color, name)
}

func testListOfCustomResources(t *testing.T, f *fixture) {
	f.createGadgets(t)
	f.namespace(t, "custom")
	f.create(t, gadget("custom", "big", 20, "red")+gadget("custom", "small", 3, "green"))
	p := f.open(t, "/console/objects/objects.example.com/gadgets?namespace=custom")
	p.awaitText(headings, "Name|Size|Color")
	p.awaitText(row("big"), "big|20|red")
	p.click("Size")
	p.awaitText(listed, "small big")
	p.clickXPath(`//label[normalize-space(.)="All columns"]/input`)
	p.awaitText(row("small"), "small|3|green|note of small")
	p.screenshot("custom")
	p.click("small")
	p.await("note of small", "Specification")
}

// testListWithOwnAge checks the list of a kind whose definition uses the names of the standard columns.
func testListWithOwnAge(t *testing.T, f *fixture) {
	definition := strings.NewReplacer("gadgets", "persons", "Gadget", "Person", "gadget", "person", "shortNames: [gd]", "shortNames: []", "name: Size", "name: Age",
		"    - {name: Color", "    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}\n    - {name: Namespace, type: integer, jsonPath: .spec.size}\n    - {name: Color").Replace(gadgets)
	f.apply(t, "creator", definition)
	f.namespace(t, "persons")
	person := func(name string, age int) string {
		return strings.ReplaceAll(gadget("persons", name, age, "red"), "kind: Gadget", "kind: Person")
	}
	testserver.Eventually(t, pageTimeout, func() error {
		_, err := f.resource(decodeObjects(t, person("ann", 7))[0]).List(t.Context(), listOptions(1))
		return err
	})
	f.create(t, person("ann", 7)+person("bob", 42)+person("eve", 3))
	p := f.open(t, "/console/objects/objects.example.com/persons?namespace=persons")
	p.awaitText(headings, "Name|Age|Age|Namespace|Color")
	p.awaitTrue(`/^bob\|42\|\d+[sm]\|42\|red$/.test(` + row("bob") + `)`)
	p.click("Age")
	p.awaitText(listed, "eve ann bob")
	p.clickXPath(`//th/button[normalize-space(.)="Namespace"]`)
	p.click("Namespace ↑")
	p.awaitText(listed, "bob ann eve")
	p.screenshot("own-age")
}

// testListWithoutTables checks a list of a server that does not support tables.
func testListWithoutTables(t *testing.T, f *fixture) {
	f.namespace(t, "plain")
	f.create(t, deployment("plain", "api", 1)+deployment("plain", "web", 1))
	p := f.open(t, "/console/")
	router := p.HijackRequests()
	p.check(router.Add("*/apis/apps/v1/*deployments*", "", func(h *rod.Hijack) {
		headers := []*proto.FetchHeaderEntry{{Name: "Accept", Value: "application/json"}}
		for name, value := range h.Request.Headers() {
			if name != "Accept" {
				headers = append(headers, &proto.FetchHeaderEntry{Name: name, Value: value.Str()})
			}
		}
		h.ContinueRequest(&proto.FetchContinueRequest{Headers: headers})
	}))
	go router.Run()
	t.Cleanup(func() { _ = router.Stop() })
	p.goTo("/console/objects/apps/deployments?filter=plain")
	p.awaitText(headings, "Namespace|Name|Age")
	p.awaitText(listed, "api web")
	p.awaitTrue(`/^plain\|web\|\d+[sm]$/.test(` + row("web") + `)`)
	p.screenshot("without-tables")
	f.create(t, deployment("plain", "db", 1))
	p.awaitText(listed, "api db web")
	f.delete(t, decodeObjects(t, deployment("plain", "api", 1))[0])
	p.awaitText(listed, "db web")
}

// testLaterDefinition checks that an open page shows the kind of a definition that is created later, and keeps
// its state.
func testLaterDefinition(t *testing.T, f *fixture) {
	p := f.open(t, "/console/objects/later.example.com/gadgets")
	p.await("The server has no resource gadgets in the group later.example.com.")
	other := f.open(t, "/console/objects/core/configmaps?namespace=default")
	other.click("Create")
	other.edit("The new object", "unsaved: true")
	f.apply(t, "creator", strings.ReplaceAll(gadgets, "objects.example.com", "later.example.com"))
	other.await("later.example.com", "unsaved: true")
	_, err := p.Activate() // a hidden page does not read the resources
	p.check(err)
	p.await("There are no objects of the kind Gadget.")
}

func testListOfEvents(t *testing.T, f *fixture) {
	f.namespace(t, "eventlist")
	f.create(t, event("eventlist", "first", "v1", "ConfigMap", "absent", "00000000-0000-0000-0000-000000000000", "Warning", "Broken", "It does not work."))
	p := f.open(t, "/console/objects/core/events?namespace=eventlist")
	p.await("Broken")
	// The name is not among the default columns, so the link to the object is in the first column.
	p.clickXPath(`//tbody/tr/td[1]/a`)
	p.awaitText(`document.querySelector("h1").innerText`, "first")
}

func event(namespace, name, apiVersion, kind, object, uid, eventType, reason, message string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Event
metadata: {name: %s, namespace: %s}
involvedObject: {apiVersion: %s, kind: %s, name: %s, namespace: %s, uid: %s}
type: %s
reason: %s
message: %s
count: 3
firstTimestamp: "2026-11-23T10:00:00Z"
lastTimestamp: "2026-11-23T10:05:00Z"
---
`, name, namespace, apiVersion, kind, object, namespace, uid, eventType, reason, message)
}

func testListErrors(t *testing.T, f *fixture) {
	f.namespace(t, "errors")
	f.create(t, deployment("errors", "web", 1))
	p := f.open(t, "/console/objects/apps/deployments?namespace=errors")
	p.awaitText(listed, "web")
	p.expect("status of 400")
	p.fill("Label selector", "app in in")
	p.await("unable to parse requirement")
	p.awaitMissing("No object matches")
	p.screenshot("error")
	p.fill("Label selector", "app=web")
	p.awaitMissing("unable to parse requirement")
	p.awaitText(listed, "web")
	p.fill("Label selector", "")
	p.awaitText(listed, "web")
	p.goTo("/console/objects/nothing.example.com/nothings")
	p.await("The server has no resource nothings in the group nothing.example.com.")
}

func testLongList(t *testing.T, f *fixture) {
	const count = 5000
	f.namespace(t, "long")
	f.createMany(t, "long", count)
	object := decodeObjects(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: long}}")[0]
	list, err := f.resource(object).List(t.Context(), listOptions(0))
	if err != nil {
		t.Fatal(err)
	}
	total := len(list.Items) // includes ConfigMaps that the server created
	p := f.open(t, "/console/objects/core/configmaps?namespace=long")
	p.await(fmt.Sprintf("%d objects, 500 read", total), "item-00000")
	rendered := func() {
		t.Helper()
		if got := p.eval(`document.querySelectorAll("tr").length < 150`); got != "true" {
			t.Errorf("the page has %s rows", p.eval(`document.querySelectorAll("tr").length`))
		}
	}
	rendered()
	p.screenshot("long")
	toEnd := `(() => { const box = document.querySelector(".rows"); box.scrollTop = box.scrollHeight; return true })()`
	p.awaitTrue(toEnd + ` && document.querySelector("header [role=status]").innerText === "` + fmt.Sprint(total) + ` objects"`)
	p.awaitTrue(toEnd + ` && ` + listed + `.includes("` + list.Items[total-1].GetName() + `")`)
	rendered()
	p.screenshot("long-end")
	if height := p.eval(`[...document.querySelectorAll(".rows tbody tr:not([aria-hidden])")].map((tr) => tr.getBoundingClientRect().height).join(" ")`); strings.ReplaceAll(strings.ReplaceAll(height, "31", ""), " ", "") != "" {
		t.Errorf("the heights of the rows are %s, want 31 pixels", height)
	}

	// The filter shortens the list while its end is visible.
	p.fill("Text", "item-0123")
	p.await("10 objects", "item-01230", "item-01239")
	p.screenshot("long-filter")

	// The overview shows the newest changes.
	p.goTo("/console/")
	f.patch(t, &list.Items[0], "last", `{"data":{"color":"blue"}}`)
	p.signIn("/console/")
	p.awaitText(`document.querySelectorAll("main tbody tr").length`, "20")
	p.await("configmaps long/item-00000", "last")
	p.screenshot("overview")

	// Filtering and sorting read all objects.
	p.signIn("/console/objects/core/configmaps?namespace=long&filter=item-04999")
	p.await("1 object", "item-04999")
	p.signIn("/console/objects/core/configmaps?namespace=long&sort=-Name&fields=metadata.name!=none")
	p.await(fmt.Sprintf("%d objects", total))
	rendered()
}

func testTheme(t *testing.T, f *fixture) {
	f.namespace(t, "theme")
	object := f.create(t, deployment("theme", "web", 1))
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	p.await("example.com/web:1")
	light := p.eval(`getComputedStyle(document.body).backgroundColor`)
	p.click("Switch between light and dark")
	p.awaitTrue(`getComputedStyle(document.body).backgroundColor !== "` + light + `"`)
	p.awaitTrue(`getComputedStyle(document.querySelector(".editor").shadowRoot.querySelector(".cm-editor")).backgroundColor !== "` + light + `"`)
	p.screenshot("dark-yaml")
	p.goTo("/console/objects/apps/deployments")
	p.await("web")
	p.screenshot("dark-list")
	p.click("Switch between light and dark")
	p.awaitText(`getComputedStyle(document.body).backgroundColor`, light)
}

// press presses the given keys one after another.
func (p *page) press(keys ...input.Key) {
	p.t.Helper()
	for _, key := range keys {
		p.check(p.Keyboard.Type(key))
	}
}

// openPalette presses Ctrl+K and waits until the command palette accepts input.
func (p *page) openPalette() {
	p.t.Helper()
	p.check(p.KeyActions().Press(input.ControlLeft).Type('k').Release(input.ControlLeft).Do())
	p.awaitTrue(`document.querySelector("dialog[open]") !== null && document.activeElement.getAttribute("role") === "combobox"`)
}

func testKeyboard(t *testing.T, f *fixture) {
	f.namespace(t, "keyboard")
	f.create(t, deployment("keyboard", "keyboard-web", 1))
	p := f.open(t, "/console/")
	p.await("Overview")
	p.openPalette()
	p.check(p.InsertText("deploy"))
	p.awaitTrue(`document.querySelector("[role=option][aria-selected=true]")?.innerText.startsWith("Deployment")`)
	p.screenshot("palette")
	p.press(input.Enter)
	p.awaitText(`location.pathname`, "/console/objects/apps/deployments")
	p.await("keyboard-web")
	// "deploy NAME" filters the names.
	p.openPalette()
	p.check(p.InsertText("deploy keyboard"))
	p.await("whose name contains keyboard")
	p.press(input.Enter)
	p.awaitText(listed, "keyboard-web")
	for range 200 { // the links of the sidebar precede the list
		if p.eval(`document.activeElement.innerText`) == "keyboard-web" {
			break
		}
		p.press(input.Tab)
	}
	p.press(input.Enter)
	p.awaitText(`document.querySelector("h1").innerText`, "keyboard-web")
	// The arrow keys select tabs.
	p.check(p.find(`//*[@role="tab"][1]`).Focus())
	p.press(input.ArrowRight)
	p.awaitText(`document.querySelector("[role=tab][aria-selected=true]").innerText`, "YAML")
	p.awaitText(`document.activeElement.innerText`, "YAML")
	p.awaitText(`location.search`, "?tab=YAML")
	// Escape closes the palette.
	p.openPalette()
	p.press(input.Escape)
	p.awaitTrue(`document.querySelector("dialog") === null`)
}

func testNarrowPage(t *testing.T, f *fixture) {
	f.namespace(t, "narrow")
	f.create(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: narrow}\ndata: {a: b}\n")
	object, _ := f.workload(t, "narrow", "a-workload-with-a-long-name")
	p := f.open(t, "/console/")
	p.resize(390, 844)
	page := objectsPath(object)
	for name, path := range map[string]string{
		"overview": "/console/", "list": "/console/objects/apps/deployments", "map": "/console/map?namespace=narrow",
		"summary": page, "yaml": page + "?tab=YAML", "events": page + "?tab=Events", "relations": page + "?tab=Relations", "history": page + "?tab=History", "managers": page + "?tab=Managers",
	} {
		p.goTo(path)
		p.awaitTrue(`document.querySelector("h1") !== null && document.querySelector(".loading") === null`)
		if overflow := p.eval(`document.documentElement.scrollWidth - innerWidth`); overflow != "0" {
			t.Errorf("%s is %s pixels wider than the viewport", name, overflow)
		}
		p.screenshot("narrow-" + name)
	}
}

// testServerRestart stops and starts the server. It runs last, because the clients of the other tests do not
// expect a restart.
func testServerRestart(t *testing.T, f *fixture) {
	f.namespace(t, "restart")
	web := f.create(t, deployment("restart", "web", 1))
	list := f.open(t, "/console/objects/apps/deployments?namespace=restart")
	list.awaitText(listed, "web")
	object := f.open(t, objectsPath(web))
	object.await("Deployment, apps/v1")
	show := func(p *page) { // a page renders lists and follows changes only while it is visible
		t.Helper()
		_, err := p.Activate()
		p.check(err)
	}
	for _, p := range []*page{list, object} {
		p.expect("status of 502")
		p.expect("net::ERR_")
	}
	if err := f.server.Stop(); err != nil {
		t.Fatal(err)
	}
	object.await("the server does not respond", "Deployment, apps/v1")
	show(list)
	list.await("the server does not respond", "web")
	if err := f.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	list.awaitMissing("the server does not respond")
	f.patch(t, web, "labeler", `{"metadata":{"labels":{"after":"the-restart"}},"spec":{"replicas":6}}`)
	list.awaitTrue(row("web") + `.startsWith("web|0/6|")`)
	show(object)
	object.awaitMissing("the server does not respond")
	object.await("after=the-restart")
}
