package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-rod/rod/lib/input"

	"mainstay.dev/mainstay/test/testserver"
)

// in returns a copy of the user that sends requests to a control plane.
func (u *apiUser) in(controlPlane string) *apiUser {
	return &apiUser{t: u.t, client: u.client, base: u.base + "/clusters/" + controlPlane}
}

// clickIn clicks the button with the text button in the table row whose first cell contains the text row.
func (p *page) clickIn(row, button string) {
	p.t.Helper()
	xpath := fmt.Sprintf(`//tr[td[1][normalize-space(.)=%q]]//button[normalize-space(.)=%q and not(@disabled)]`, row, button)
	p.check(p.find(xpath).Timeout(pageTimeout).Click("left", 1))
}

// ready returns a JavaScript expression that is true if the table shows that a control plane is ready.
func ready(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].some((row) => row.cells[0].innerText === %q && row.cells[1].innerText === "Ready")`, name)
}

func TestControlPlanes(t *testing.T) {
	testserver.RootOnly(t, "control planes are objects of the root")
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	colors := configMapPath("default", "colors")
	admin.apply(colors, configMap("colors", "red"))
	p := openPage(t, browser, startConsole(t, s.Kubeconfig()), "/console/controlplanes")

	t.Run("Create", func(t *testing.T) {
		p.in(t)
		p.await("There are no control planes besides the root.")
		p.click("Create or fork")
		p.fill("Name", "Not_Valid")
		p.awaitTrue(`document.querySelector("input[name=name]").validity.patternMismatch`)
		p.screenshot("invalid-name")
		p.fill("Name", "team-a")
		p.awaitTrue(ready("team-a"))
		p.screenshot("list")
		p.expect("409 (Conflict)")
		p.click("Create or fork")
		p.fill("Name", "team-a")
		p.await(`"team-a" already exists`)
		p.clickDialog("Close")
		p.awaitMissing("already exists")
	})

	t.Run("Open", func(t *testing.T) {
		p.in(t)
		p.clickIn("team-a", "Open")
		p.awaitTrue(`location.pathname === "/clusters/team-a/console/"`)
		p.await("control plane team-a", "Overview", "root:")
		p.screenshot("open")
		p.openPalette()
		p.check(p.InsertText("control"))
		p.await("controllerrevisions apps")
		if got := p.text("#palette"); strings.Contains(got, "Control planes") {
			t.Errorf("the palette of a control plane contains %q", got)
		}
		p.press(input.Escape)
		p.goTo("/clusters/team-a/console/objects/core/configmaps?namespace=default")
		p.await("kube-root-ca.crt")
		p.click("Create")
		p.edit("The new object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: inside\n  namespace: default\ndata: {mode: blue}\n")
		p.clickDialog("Create")
		p.awaitTrue(`location.pathname === "/clusters/team-a/console/objects/core/configmaps/default/inside"`)
		p.await("inside")
		if got := admin.in("team-a").get(configMapPath("default", "inside")); got == nil || got.Data["mode"] != "blue" {
			t.Errorf("the object in the control plane is %+v", got)
		}
		if admin.get(configMapPath("default", "inside")) != nil {
			t.Error("the object exists in the root control plane")
		}
		p.goTo("/clusters/team-a/console/server")
		p.await("Control planes share one server.", "Latency by verb and resource", "Health checks")
		p.goTo("/clusters/team-a/console/controlplanes")
		p.await("Control planes are objects of the root control plane. Leave team-a to see them.")
		p.click("Leave the control plane")
		p.awaitTrue(`location.pathname === "/console/controlplanes"`)
		p.await("team-a", "Create or fork")
		p.awaitMissing("control plane team-a")
	})

	t.Run("Fork", func(t *testing.T) {
		p.in(t)
		p.click("Create or fork")
		p.choose("Begins with", "a copy of the root control plane")
		p.await("At the time (empty: now)")
		p.screenshot("fork")
		p.fill("Name", "rehearsal")
		p.awaitTrue(ready("rehearsal"))
		p.await("the root")
		p.clickIn("rehearsal", "Compare")
		p.await("The fork is equal to its source.")
		p.clickDialog("Close")
		fork := admin.in("rehearsal")
		fork.apply(colors, configMap("colors", "blue"))
		fork.apply(configMapPath("default", "shapes"), configMap("shapes", "round"))
		fork.delete("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
		p.clickIn("rehearsal", "Compare")
		p.await("rehearsal, compared with its source", "Updated", "configmaps default/colors", "data.mode", "Created", "configmaps default/shapes", "mainstay apply-diff rehearsal")
		p.check(p.find(`//dialog//tr[td[2][normalize-space(.)="configmaps default/colors"]]//button`).Click("left", 1))
		p.await("mode: red", "mode: blue")
		p.screenshot("compare")
		p.clickDialog("Close")
		if got := admin.get(colors).Data["mode"]; got != "red" {
			t.Errorf("the object in the source is %s", got)
		}
	})

	t.Run("ForkOfThePast", func(t *testing.T) {
		p.in(t)
		at := nextSecond()
		nextSecond()
		admin.apply(colors, configMap("colors", "green"))
		p.click("Create or fork")
		p.choose("Begins with", "a copy of the root control plane")
		_, err := p.Eval(`(at) => {
			const local = new Date(at - new Date(at).getTimezoneOffset() * 60000);
			document.querySelector("input[name=time]").value = local.toISOString().slice(0, 19);
		}`, at.UnixMilli())
		p.check(err)
		p.fill("Name", "earlier")
		p.awaitTrue(ready("earlier"))
		p.await("the root at ")
		if got := admin.in("earlier").get(colors).Data["mode"]; got != "red" {
			t.Errorf("the object in the fork is %s", got)
		}
	})

	t.Run("DeepLink", func(t *testing.T) {
		p.in(t)
		p.signIn("/clusters/rehearsal/console/objects/core/configmaps/default/colors?tab=YAML")
		p.await("control plane rehearsal", "mode: blue")
		admin.apply("/apis/mainstay.dev/v1/controlplanes/console", "{apiVersion: mainstay.dev/v1, kind: ControlPlane, metadata: {name: console}}")
		p.goTo("/console/controlplanes")
		p.awaitTrue(ready("console"))
		p.signIn("/clusters/console/console/objects/core/namespaces")
		p.await("control plane console", "kube-system")
		p.expect("404 (Not Found)")
		p.signIn("/clusters/missing/console/")
		p.await("missing", "not found")
		p.screenshot("missing")
	})

	t.Run("Delete", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/controlplanes")
		p.awaitTrue(ready("team-a"))
		admin.delete("/apis/mainstay.dev/v1/controlplanes/earlier")
		p.awaitMissing("earlier")
		p.click("team-a")
		p.click("Delete")
		p.await("Delete ControlPlane team-a", "Secret team-a-kubeconfig")
		p.screenshot("delete")
		p.clickDialog("Delete")
		p.awaitMissing("Delete ControlPlane team-a")
		p.goTo("/console/controlplanes")
		p.await("rehearsal")
		p.awaitMissing("team-a")
	})
}
