package console

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/proto"
)

// endSessions ends all sessions of the console, by starting more than the maximum number of sessions.
func (c *console) endSessions(t *testing.T) {
	t.Helper()
	for range 40 {
		response, err := http.Post(c.address+"/console/session", "text/plain", strings.NewReader(c.code(t)))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("the code was not accepted: %s", response.Status)
		}
	}
}

// hold delays requests whose URL contains part and whose method is method. wait returns when the first request has
// arrived, and release sends the requests to the server.
func (p *page) hold(method, part string) (wait, release func()) {
	p.t.Helper()
	arrived, released := make(chan struct{}, 100), make(chan struct{})
	router := p.HijackRequests()
	p.check(router.Add("*"+part+"*", "", func(h *rod.Hijack) {
		if h.Request.Method() == method {
			arrived <- struct{}{}
			<-released
		}
		h.ContinueRequest(&proto.FetchContinueRequest{})
	}))
	go router.Run()
	release = sync.OnceFunc(func() { close(released) })
	p.t.Cleanup(func() {
		release()
		_ = router.Stop()
	})
	wait = func() {
		p.t.Helper()
		select {
		case <-arrived:
		case <-time.After(pageTimeout):
			p.t.Fatalf("the page has not sent %s %s", method, part)
		}
	}
	return wait, release
}

// testEditDuringReview checks that text typed while the server verifies a change remains.
func testEditDuringReview(t *testing.T, f *fixture) {
	f.namespace(t, "typing")
	object := f.create(t, deployment("typing", "web", 3))
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	p.click("Edit")
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 3", "replicas: 4", 1))
	wait, release := p.hold(http.MethodPut, "dryRun=All")
	p.click("Review changes")
	wait()
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 3", "replicas: 5", 1))
	release()
	p.awaitTrue(`[...document.querySelectorAll("button")].every((button) => !button.disabled)`)
	p.await("replicas: 5")
	p.click("Review changes")
	p.await("Changes", "replicas: 5")
	p.click("Save")
	p.await("web was saved.", "replicas: 5")

	// The same applies to a merge after a conflict.
	object = f.get(t, object)
	p.click("Edit")
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 5", "replicas: 6", 1))
	f.patch(t, object, "somebody", `{"metadata":{"labels":{"team":"blue"}}}`)
	p.expect("status of 409")
	p.click("Review changes")
	p.await("The object has changed since you began to edit")
	wait, release = p.hold(http.MethodGet, "/deployments/web")
	p.click("Merge my changes into the current object")
	wait()
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 5", "replicas: 7", 1))
	release()
	p.awaitMissing("The object has changed")
	p.await("replicas: 7", "team: blue")
}

// testSessionEnds checks that unsaved changes remain when the session ends.
func testSessionEnds(t *testing.T, f *fixture) {
	f.namespace(t, "session")
	object := f.create(t, deployment("session", "web", 3))
	p := f.open(t, objectsPath(object)+"?tab=YAML")
	p.expect("status of 401")
	p.click("Edit")
	p.edit("Edit web", strings.Replace(manifest(t, object), "replicas: 3", "replicas: 4", 1))
	f.console.endSessions(t)
	p.click("Review changes")
	p.await("The session has ended. Sign in again.")
	p.screenshot("session-ended")
	p.fill("One-time code", f.console.code(t))
	p.awaitMissing("The session has ended.")
	p.await("replicas: 4")
	p.click("Review changes")
	p.await("Changes", "replicas: 3", "replicas: 4")
	p.click("Save")
	p.await("web was saved.")

	// The form is above an open dialog.
	p.goTo("/console/objects/core/configmaps?namespace=session")
	p.click("Create")
	p.edit("The new object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: unsaved, namespace: session}\n")
	f.console.endSessions(t)
	p.clickInDialog("Create")
	p.await("The session has ended. Sign in again.")
	p.fill("One-time code", f.console.code(t))
	p.awaitMissing("The session has ended.")
	p.clickInDialog("Create")
	p.awaitText(`location.pathname`, "/console/objects/core/configmaps/session/unsaved")

	// A planned undo uses the new session.
	p.goTo(objectsPath(object) + "?tab=History")
	p.click("Updated")
	p.click("Undo…")
	p.await("Undo: return to the state before the change")
	f.console.endSessions(t)
	p.click("Undo the change")
	p.await("The session has ended. Sign in again.")
	p.fill("One-time code", f.console.code(t))
	p.awaitMissing("The session has ended.")
	p.click("Undo the change")
	p.await("the change was undone.")
}
