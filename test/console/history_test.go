package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/proto"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// apiUser sends requests to a server as one user.
type apiUser struct {
	t      testing.TB
	client *http.Client
	base   string
}

// newAPIUser returns a user with the credentials in config. If name is not empty, the requests impersonate the
// user with this name and groups. newAPIUser modifies config.
func newAPIUser(t testing.TB, config *rest.Config, name string, groups ...string) *apiUser {
	t.Helper()
	if name != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &apiUser{t: t, client: client, base: config.Host}
}

// send sends a request and returns the status code and the body of the response.
func (u *apiUser) send(method, path, contentType, body string) (int, string) {
	u.t.Helper()
	request, err := http.NewRequestWithContext(u.t.Context(), method, u.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := u.client.Do(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// apply applies an object, in YAML, at its path and fails the test on error.
func (u *apiUser) apply(path, object string) {
	u.t.Helper()
	if code, body := u.send(http.MethodPatch, path+"?fieldManager=test&force=true", "application/apply-patch+yaml", object); code >= 300 {
		u.t.Fatalf("apply %s: %d %s", path, code, body)
	}
}

// delete sends a DELETE for path and fails the test on error.
func (u *apiUser) delete(path string) {
	u.t.Helper()
	if code, body := u.send(http.MethodDelete, path, "application/json", ""); code >= 300 {
		u.t.Fatalf("delete %s: %d %s", path, code, body)
	}
}

// object contains the fields of an object that these tests need.
type object struct {
	Metadata struct {
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// get returns the object at a path, or nil if it does not exist.
func (u *apiUser) get(path string) *object {
	u.t.Helper()
	code, body := u.send(http.MethodGet, path, "application/json", "")
	if code == http.StatusNotFound {
		return nil
	}
	var found object
	if err := json.Unmarshal([]byte(body), &found); code != http.StatusOK || err != nil {
		u.t.Fatalf("get %s: %d %s %v", path, code, body, err)
	}
	return &found
}

func configMapPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/configmaps/" + name
}

// configMap returns the YAML of a ConfigMap with the value mode.
func configMap(name, mode string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {mode: %s}}", name, mode)
}

func namespace(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)
}

// choose selects an option in the selection list with the given label.
func (p *page) choose(label, option string) {
	p.t.Helper()
	field := p.find(fmt.Sprintf(`//select[ancestor::label[starts-with(normalize-space(.), %q)]]`, label))
	p.check(field.Select([]string{"^" + option + "$"}, true, rod.SelectorTypeRegex))
}

// clickDialog clicks the button with the given text in the open dialog. It first waits until the button no
// longer moves, because buttons are below content that loads later.
func (p *page) clickDialog(text string) {
	p.t.Helper()
	button := p.find(fmt.Sprintf(`//dialog[@open]//button[normalize-space(.)=%q or @aria-label=%q]`, text, text)).Timeout(pageTimeout)
	p.check(button.WaitStable(100 * time.Millisecond))
	p.check(button.Click(proto.InputMouseButtonLeft, 1))
}

// nextSecond waits until the clock reaches the second after the next one, and returns this time. Times in the
// console have a resolution of one second.
func nextSecond() time.Time {
	at := time.Now().Truncate(time.Second).Add(2 * time.Second)
	time.Sleep(time.Until(at))
	return at
}

func TestHistory(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	jane := newAPIUser(t, s.RESTConfig(), "jane", "system:masters")
	john := newAPIUser(t, s.RESTConfig(), "john", "system:masters")
	for _, name := range []string{"shop", "office"} {
		admin.apply("/api/v1/namespaces/"+name, namespace(name))
	}
	settings := configMapPath("shop", "settings")
	jane.apply(settings, configMap("settings", "first"))
	first := admin.get(settings)
	between := nextSecond()
	nextSecond()
	john.apply(settings, configMap("settings", "second"))
	second := admin.get(settings)
	jane.apply(configMapPath("shop", "colors"), configMap("colors", "red"))
	jane.apply(configMapPath("office", "printers"), configMap("printers", "all"))
	admin.apply("/api/v1/namespaces/shop/secrets/key", `{apiVersion: v1, kind: Secret, metadata: {name: key}}`)

	p := openPage(t, browser, startConsole(t, s.Kubeconfig()), "/console/history")

	t.Run("Timeline", func(t *testing.T) {
		p.in(t)
		p.await("configmaps shop/settings", "configmaps shop/colors", "configmaps office/printers", "secrets shop/key", "namespaces office", "jane (by ", "data.mode")
		p.screenshot("timeline")
		p.fill("Namespace", "shop")
		p.awaitMissing("configmaps office/printers")
		p.await("configmaps shop/settings", "secrets shop/key")
		p.fill("User", "jane")
		p.awaitMissing("secrets shop/key")
		p.await("configmaps shop/settings", "configmaps shop/colors", "Created")
		p.awaitMissing("john")
		p.fill("User", "")
		p.fill("Resource", "secrets")
		p.awaitMissing("configmaps shop/settings")
		p.await("secrets shop/key")
		p.fill("Resource", "")
		p.fill("Since", "rv/"+second.Metadata.ResourceVersion)
		p.awaitMissing("configmaps shop/settings")
		p.await("configmaps shop/colors")
		p.awaitTrue(`location.search.includes("namespace=shop")`)
		p.expect("400 (Bad Request)")
		p.fill("Since", "yesterday")
		p.await("since", "yesterday", "Try again")
		p.screenshot("invalid-since")
	})

	t.Run("Object", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/objects/core/configmaps/shop/settings?tab=History")
		p.await("Created", "Updated", "jane", "john", "data.mode")
		p.screenshot("object")
	})

	t.Run("Difference", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/history?namespace=shop&resource=configmaps&user=john")
		p.click("Updated")
		p.await("Updated: configmaps settings", "by john", "field manager test", "mode: first", "mode: second")
		p.screenshot("difference")
	})

	t.Run("Past", func(t *testing.T) {
		p.in(t)
		john.apply(settings, configMap("settings", "third"))
		p.clickDialog("Show everything after this change")
		base := "/at/rv/" + second.Metadata.ResourceVersion
		p.awaitTrue(fmt.Sprintf(`location.pathname === %q`, base+"/console/history"))
		p.await("The page shows the state of resourceVersion "+second.Metadata.ResourceVersion, "It cannot be changed.")
		p.await("configmaps shop/settings", "john")
		p.screenshot("past-history")
		p.click("Updated")
		p.await("mode: first", "mode: second")
		p.awaitMissing("Undo…")
		p.clickDialog("Close")
		p.fill("User", "")
		p.await("jane")
		p.awaitMissing("configmaps shop/colors")
		p.goTo(base + "/console/objects/core/configmaps/shop/settings?tab=History")
		p.await("Created", "Updated", "jane", "john")
		p.goTo(base + "/console/objects/core/configmaps/shop/settings?tab=YAML")
		p.await("mode: second", "It cannot be changed.")
		p.awaitMissing("Delete")
		p.screenshot("past-object")
		p.goTo(base + "/console/objects/core/configmaps")
		p.await("settings", "It cannot be changed.")
		p.awaitMissing("colors")
		p.awaitMissing("Create")
		p.goTo(base + "/console/server")
		p.await("The state of the server is not part of the history.")
		p.goTo(base + "/console/admission")
		p.await("Only the present state has admission.")
		p.goTo(base + "/console/permissions?resource=configmaps")
		p.await("Group system:masters")
		p.goTo(base + "/console/")
		p.await("Changes of the last hour", "configmaps shop/settings")
		p.awaitMissing("configmaps shop/colors")
		p.goTo(base + "/console/objects/core/configmaps/shop/settings?tab=YAML")
		p.await("mode: second")
		p.click("Return to now")
		p.await("mode: third")
		p.awaitMissing("It cannot be changed.")
		p.awaitTrue(`location.pathname === "/console/objects/core/configmaps/shop/settings"`)
	})

	showTime := func(p *page) {
		p.choose("As of", "Other time…")
		p.await("Show the state of a time")
		_, err := p.Eval(`(at) => {
			const local = new Date(at - new Date(at).getTimezoneOffset() * 60000);
			document.querySelector("input[name=time]").value = local.toISOString().slice(0, 19);
		}`, between.UnixMilli())
		p.check(err)
		p.clickDialog("Show")
	}

	t.Run("AsOf", func(t *testing.T) {
		p.in(t)
		p.expect("410 (Gone)")
		p.choose("As of", "7 days ago")
		p.await("The state is not available")
		p.screenshot("too-early")
		p.clickDialog("Close")
		p.awaitTrue(`document.querySelector(".moment select").value === ""`)
		showTime(p)
		p.await("The page shows the state of resourceVersion ", "It cannot be changed.", "mode: first")
		p.screenshot("as-of")
		p.choose("As of", "Now")
		p.await("mode: third")
	})

	// The page of an earlier state is the page that the user has opened since the selection.
	t.Run("AsOfWhileOpening", func(t *testing.T) {
		p := openPage(t, p.Browser(), p.console, "/console/objects/core/namespaces")
		p.await("kube-system")
		wait, release := p.hold(http.MethodGet, "/at/*/api")
		showTime(p)
		wait()
		p.goTo("/console/objects/core/configmaps?namespace=shop")
		p.await("settings")
		release()
		p.await("The page shows the state of resourceVersion ")
		p.awaitTrue(`location.pathname.endsWith("/console/objects/core/configmaps") && location.search === "?namespace=shop"`)
	})

	t.Run("UndoUpdate", func(t *testing.T) {
		p.in(t)
		p.expect("404 (Not Found)") // the undo reads the object, which may have been deleted
		p.goTo("/console/history?namespace=shop&resource=configmaps&user=jane")
		jane.apply(settings, configMap("settings", "fourth"))
		p.click("Read again")
		p.click("Updated")
		p.clickDialog("Undo…")
		p.await("Undo: return to the state before the change", "mode: fourth", "mode: third")
		p.screenshot("undo-update")
		if got := admin.get(settings).Data["mode"]; got != "fourth" {
			t.Fatalf("the preview has changed the object: %s", got)
		}
		p.clickDialog("Undo the change")
		p.await("configmaps settings: the change was undone.")
		if got := admin.get(settings).Data["mode"]; got != "third" {
			t.Fatalf("mode is %s after the update was undone", got)
		}
	})

	t.Run("UndoDeletion", func(t *testing.T) {
		p.in(t)
		jane.delete(settings)
		p.click("Read again")
		p.click("Deleted")
		p.await("Deleted: configmaps settings", "mode: third")
		p.clickDialog("Undo…")
		p.await("Undo: create the object again")
		p.screenshot("undo-deletion")
		if admin.get(settings) != nil {
			t.Fatal("the preview has created the object")
		}
		p.clickDialog("Undo the change")
		p.await("configmaps settings: the change was undone.")
		p.awaitMissing("Undo: create")
		restored := admin.get(settings)
		if restored == nil || restored.Metadata.UID != first.Metadata.UID || restored.Data["mode"] != "third" {
			t.Fatalf("the restored object is %+v, expected the UID %s", restored, first.Metadata.UID)
		}
	})

	t.Run("UndoCreation", func(t *testing.T) {
		p.in(t)
		extra := configMapPath("office", "extra")
		jane.apply(extra, configMap("extra", "x"))
		p.goTo("/console/history?namespace=office&resource=configmaps&user=jane&since=rv/" + second.Metadata.ResourceVersion)
		p.await("configmaps office/extra")
		p.click("Created")
		p.clickDialog("Undo…")
		p.await("Undo: delete the object")
		p.screenshot("undo-creation")
		p.clickDialog("Undo the change")
		p.await("configmaps extra: the change was undone.")
		if admin.get(extra) != nil {
			t.Fatal("the object exists after its creation was undone")
		}
		// The list is read again. A second attempt to undo the change results in an understandable error.
		p.fill("User", "")
		p.await("Deleted")
		p.fill("User", "jane")
		p.awaitMissing("Deleted")
		p.click("Created")
		p.clickDialog("Undo…")
		p.await("The created object does not exist any more.")
		p.clickDialog("Close")
	})

	t.Run("ObjectWithoutNamespace", func(t *testing.T) {
		p.in(t)
		p.goTo("/console/history?resource=namespaces")
		p.await("namespaces office")
		p.clickXPath(`//tr[contains(., "namespaces office")]//button`)
		p.await("Created: namespaces office", "name: office")
		p.clickDialog("Close")
	})

	t.Run("UndoMany", func(t *testing.T) {
		p.in(t)
		admin.apply("/api/v1/namespaces/depot", namespace("depot"))
		path := func(name string) string { return configMapPath("depot", name) }
		for _, name := range []string{"kept", "removed", "shared"} {
			john.apply(path(name), configMap(name, "first"))
		}
		removed := admin.get(path("removed"))
		start := admin.get(path("shared")).Metadata.ResourceVersion
		jane.apply(path("kept"), configMap("kept", "second"))
		jane.apply(path("kept"), configMap("kept", "third"))
		jane.delete(path("removed"))
		jane.apply(path("extra"), configMap("extra", "first"))
		jane.apply(path("shared"), configMap("shared", "second"))
		john.apply(path("shared"), configMap("shared", "third"))

		p.goTo("/console/history?namespace=depot&user=jane&since=rv/" + start)
		p.await("Select all 5 listed changes", "Undo 0 selected…")
		p.clickXPath(`//label[contains(., "Select all 5 listed changes")]/input`)
		p.screenshot("undo-selection")
		p.click("Undo 5 selected…")
		p.await("Undo 5 changes", "Restore configmaps depot/kept", "Create again configmaps depot/removed", "Delete configmaps depot/extra",
			"configmaps depot/shared has a later change that is not selected: updated", "ago by john", "mode: first", "mode: third")
		p.screenshot("undo-preview")
		if admin.get(path("removed")) != nil || admin.get(path("kept")).Data["mode"] != "third" {
			t.Fatal("the preview has changed objects")
		}
		p.clickDialog("Write 3 objects")
		p.await("All 3 objects were written.", "restored", "created again", "deleted")
		p.screenshot("undo-result")
		if kept := admin.get(path("kept")); kept.Data["mode"] != "first" {
			t.Errorf("the restored object is %+v", kept)
		}
		if again := admin.get(path("removed")); again == nil || again.Metadata.UID != removed.Metadata.UID || again.Data["mode"] != "first" {
			t.Errorf("the object that was created again is %+v, expected the UID %s", again, removed.Metadata.UID)
		}
		if admin.get(path("extra")) != nil {
			t.Error("the created object exists")
		}
		if shared := admin.get(path("shared")); shared.Data["mode"] != "third" {
			t.Errorf("the object with a conflict is %+v", shared)
		}
		// An apply by the earlier manager has no conflict, because the undo also restores the managers of the
		// fields.
		if code, body := john.send(http.MethodPatch, path("kept")+"?fieldManager=test", "application/apply-patch+yaml", configMap("kept", "fourth")); code != http.StatusOK {
			t.Errorf("apply: %d %s", code, body)
		}
		p.clickDialog("Done")

		// An object that was changed after the preview is not written.
		jane.apply(path("kept"), configMap("kept", "fifth"))
		jane.apply(path("other"), configMap("other", "first"))
		p.click("Read again")
		p.awaitTrue(`document.querySelectorAll("input[aria-label^='Select: Updated configmaps depot/kept']").length === 3`)
		p.clickXPath(`(//input[starts-with(@aria-label, "Select: Updated configmaps depot/kept")])[1]`)
		p.clickXPath(`//input[starts-with(@aria-label, "Select: Created configmaps depot/other")]`)
		p.click("Undo 2 selected…")
		p.await("Restore configmaps depot/kept", "mode: fifth", "mode: fourth", "Delete configmaps depot/other")
		john.apply(path("kept"), configMap("kept", "sixth"))
		john.apply(path("other"), configMap("other", "second"))
		p.clickDialog("Write 2 objects")
		p.await("2 of 2 objects were not written.", "failed: The object has changed since the preview.")
		if other := admin.get(path("other")); other == nil || other.Data["mode"] != "second" {
			t.Errorf("the object is %+v", other)
		}
		if kept := admin.get(path("kept")); kept.Data["mode"] != "sixth" {
			t.Errorf("the object is %+v", kept)
		}
		p.clickDialog("Done")
	})

	t.Run("UndoDefinition", func(t *testing.T) {
		p.in(t)
		const definition, toy = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.example.com", "/apis/example.com/v1/namespaces/shop/toys/bear"
		admin.apply(definition, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: toys.example.com},
			spec: {group: example.com, scope: Namespaced, names: {plural: toys, kind: Toy}, versions: [{name: v1, served: true, storage: true,
				schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]}}`)
		testserver.Eventually(t, pageTimeout, func() error {
			code, body := admin.send(http.MethodPatch, toy+"?fieldManager=test", "application/apply-patch+yaml", `{apiVersion: example.com/v1, kind: Toy, metadata: {name: bear}, spec: {size: 3}}`)
			if code != http.StatusCreated {
				return fmt.Errorf("create the toy: %d %s", code, body)
			}
			return nil
		})
		bear := admin.get(toy)
		admin.delete(definition)
		p.goTo("/console/history?since=rv/" + bear.Metadata.ResourceVersion)
		testserver.Eventually(t, pageTimeout, func() error {
			if admin.get(definition) != nil {
				return fmt.Errorf("the definition exists")
			}
			return nil
		})
		p.click("Read again")
		p.await("Deleted", "customresourcedefinitions.apiextensions.k8s.io toys.example.com", "toys.example.com shop/bear")
		p.awaitTrue(`document.querySelector("input[aria-label^='Select: Deleted customresourcedefinitions']") !== null`)
		// The APIService of the definition also changes, possibly later.
		_, err := p.Eval(`() => document.querySelectorAll("input[aria-label*='toys.example.com']").forEach((box) => box.click())`)
		p.check(err)
		p.awaitMissing("Undo 0 selected")
		p.clickXPath(`//button[starts-with(., "Undo ")]`)
		p.await("Create again customresourcedefinitions.apiextensions.k8s.io toys.example.com", "Create again toys.example.com shop/bear")
		p.clickDialog("Write 2 objects")
		p.await("All 2 objects were written.")
		if again := admin.get(toy); again == nil || again.Metadata.UID != bear.Metadata.UID {
			t.Errorf("the custom resource is %+v, expected the UID %s", again, bear.Metadata.UID)
		}
	})
}

// in sets the test to which the page reports failures until the subtest t ends. If the subtest fails, the page
// saves a screenshot among the artifacts of the subtest.
func (p *page) in(t *testing.T) {
	t.Helper()
	outer := p.t
	p.t = t
	t.Cleanup(func() {
		if t.Failed() {
			p.screenshot("failed")
		}
		p.t = outer
	})
}
