package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/go-rod/rod/lib/proto"

	"mainstay.dev/mainstay/test/testserver"
)

// axeFile is the source of axe-core, the accessibility rules engine that "npm ci" installs.
const axeFile = "../../console/node_modules/axe-core/axe.min.js"

// axeSource returns the source of axe-core, or skips the test if it is not installed.
func axeSource(t *testing.T) string {
	t.Helper()
	axe, err := os.ReadFile(axeFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("axe-core is not installed: run npm ci in the directory console")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(axe)
}

// violation contains the printed fields of a violation that axe reports.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		Target         []any
		FailureSummary string
	}
}

// checkAccessibility reports serious and critical violations of WCAG 2.2, levels A and AA, in the light and the
// dark theme. axe is the source of axe-core, and name identifies the page in error messages.
func (p *page) checkAccessibility(axe, name string) {
	p.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		p.check(proto.EmulationSetEmulatedMedia{Features: []*proto.EmulationMediaFeature{{Name: "prefers-color-scheme", Value: theme}}}.Call(p))
		if p.eval(`typeof axe`) == "undefined" {
			_, err := proto.RuntimeEvaluate{Expression: axe}.Call(p)
			p.check(err)
		}
		found, err := p.Eval(`async () => {
			// This experimental rule compares the label of a graph node with its joined texts, as in
			// "Deploymentweb".
			const rules = { "label-content-name-mismatch": { enabled: false } };
			const { violations } = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], rules, resultTypes: ["violations"] });
			return JSON.stringify(violations);
		}`)
		p.check(err)
		var violations []violation
		if err := json.Unmarshal([]byte(found.Value.Str()), &violations); err != nil {
			p.t.Fatal(err)
		}
		for _, v := range violations {
			if v.Impact != "serious" && v.Impact != "critical" {
				continue
			}
			var nodes strings.Builder
			for _, node := range v.Nodes[:min(3, len(v.Nodes))] {
				fmt.Fprintf(&nodes, "\n  %v %.160s\n    %s", node.Target, node.HTML, strings.ReplaceAll(node.FailureSummary, "\n", " "))
			}
			p.t.Errorf("%s, %s theme: %s (%s): %s, %d elements:%s", name, theme, v.ID, v.Impact, v.Help, len(v.Nodes), nodes.String())
		}
		p.screenshot(name + "-" + theme)
	}
}

// TestAccessibility checks each page with axe.
func TestAccessibility(t *testing.T) {
	axe := axeSource(t)
	f := newFixture(t)
	f.namespace(t, "shop")
	deploy, _ := f.workload(t, "shop", "web")
	f.create(t, `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop, labels: {app: web}, annotations: {example.com/note: A note}}
data: {mode: first}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: shop}
involvedObject: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: `+string(deploy.GetUID())+`}
type: Warning
reason: Failed
message: The image does not exist.
---
apiVersion: mainstay.dev/v1
kind: ControlPlane
metadata: {name: team}
spec: {from: {}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane-views}
subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: ClusterRole, name: view, apiGroup: rbac.authorization.k8s.io}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: checks}
webhooks:
- {name: checks.example.com, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Ignore, clientConfig: {url: "https://127.0.0.1:1/"}, matchPolicy: Exact,
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [items]}]}
---
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: shop}
spec: {limits: [{type: Container, default: {cpu: 1}}]}
`)
	f.apply(t, "gitops", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {mode: second}}")
	testserver.Eventually(t, pageTimeout, func() error {
		found := f.get(t, decodeObjects(t, "{apiVersion: mainstay.dev/v1, kind: ControlPlane, metadata: {name: team}}")[0])
		if status, _ := found.Object["status"].(map[string]any); status["phase"] != "Ready" {
			return fmt.Errorf("the control plane has the status %v", status)
		}
		return nil
	})
	settings := "/console/objects/core/configmaps/shop/settings"
	pod := "/console/objects/core/pods/shop/web-7d4b9-x1"

	p := f.open(t, "/console/")
	p.expect("the server responded with a status of")
	for _, tt := range []struct {
		name, path string
		texts      []string
		actions    func()
	}{
		{"overview", "/console/", []string{"Warnings", "The image does not exist.", "Changes of the last hour", "Created"}, nil},
		{"search", "/console/", []string{"Overview"}, func() { p.click("Search Ctrl K"); p.await("Control planes page") }},
		{"list", "/console/objects/apps/deployments?sort=Name", []string{"1 object", "web"}, nil},
		{"empty-list", "/console/objects/apps/deployments?namespace=missing", []string{"There are no objects"}, nil},
		{"create", "/console/objects/core/configmaps", []string{"settings"}, func() { p.click("Create"); p.await("apiVersion") }},
		{"summary", "/console/objects/apps/deployments/shop/web", []string{"Conditions", "ProgressDeadlineExceeded"}, nil},
		{"yaml", settings + "?tab=YAML", []string{"mode: second"}, nil},
		{"edit", settings + "?tab=YAML", []string{"mode: second"}, func() {
			p.click("Edit")
			p.edit("Edit settings", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {mode: third}\n")
			p.await("mode: third")
		}},
		{"problems", settings + "?tab=YAML", []string{"mode: second"}, func() {
			p.click("Edit")
			p.edit("Edit settings", "apiVersion: v1\nkind: ConfigMap\nmetadata: {nam: settings}\ndata: {mode: 3}\n")
			p.awaitText(marked("error"), "3")
		}},
		{"review", settings + "?tab=YAML", []string{"mode: second"}, func() {
			p.click("Edit")
			p.edit("Edit settings", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {mode: third}\n")
			p.click("Review changes")
			p.await("Continue editing", "mode: third")
		}},
		{"events", "/console/objects/apps/deployments/shop/web?tab=Events", []string{"The image does not exist."}, nil},
		{"relations", pod + "?tab=Relations", []string{"Owners and dependents", "References", "Selected by"}, nil},
		{"object-history", settings + "?tab=History", []string{"Updated"}, nil},
		{"managers", settings + "?tab=Managers", []string{"Apply, last change"}, nil},
		{"logs", pod + "?tab=Logs", []string{"Container", "has not written anything"}, nil},
		{"terminal", pod + "?tab=Terminal", []string{"Run"}, nil},
		{"delete", settings, []string{"UID"}, func() { p.click("Delete"); p.awaitTrue(`document.querySelector("dialog[open]") !== null`) }},
		{"missing-object", "/console/objects/core/configmaps/shop/missing", []string{"not found"}, nil},
		{"map", "/console/map?namespace=shop", []string{"settings", "web"}, nil},
		{"history", "/console/history?namespace=shop", []string{"configmaps shop/settings"}, nil},
		{"change", "/console/history?namespace=shop&resource=configmaps", []string{"Updated"}, func() { p.click("Updated"); p.await("mode: first", "mode: second") }},
		{"undo", "/console/history?namespace=shop&resource=configmaps", []string{"Undo 0 selected…"}, func() {
			p.clickXPath(`//label[contains(., "Select all")]/input`)
			p.awaitMissing("Undo 0 selected")
			p.clickXPath(`//button[starts-with(., "Undo ")]`)
			p.await("Delete configmaps shop/settings")
		}},
		{"who-can", "/console/permissions?resource=pods&simRole=ClusterRole/edit&simSubject=john", []string{"User jane", "User john"}, func() {
			p.click("User jane can list: show the reason")
			p.await("Reason: User jane list")
		}},
		{"what-can", "/console/permissions?tab=What+can&subject=jane", []string{"deployments.apps"}, nil},
		{"why-denied", "/console/permissions?tab=Why+denied", []string{"Message of the response"}, func() {
			p.fill("Message of the response", `pods is forbidden: User "jane" cannot delete resource "pods" in API group "" in the namespace "shop"`)
			p.await("The server's decision now: denied", "Rules that come closest")
		}},
		{"trace", "/console/admission", []string{"Run the trace"}, func() { p.click("Run the trace"); p.await("The server would", "Show plugins without effect") }},
		{"webhooks", "/console/admission?tab=Webhooks+and+policies", []string{"checks.example.com"}, nil},
		{"server", "/console/server", []string{"Health checks", "Latency by verb and resource"}, nil},
		{"control-planes", "/console/controlplanes", []string{"team", "Ready"}, nil},
		{"create-control-plane", "/console/controlplanes", []string{"team"}, func() { p.click("Create or fork"); p.awaitTrue(`document.querySelector("dialog[open]") !== null`) }},
		{"compare", "/console/controlplanes", []string{"team", "Compare"}, func() { p.click("Compare"); p.awaitTrue(`document.querySelector("dialog[open]") !== null`) }},
		{"past", "/at/-1s/console/objects/core/configmaps/shop/settings", []string{"It cannot be changed."}, nil},
		{"control-plane", "/clusters/team/console/objects/core/namespaces", []string{"kube-system"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.in(t)
			p.goTo("/console/missing") // closes dialogs
			p.await("The console has no page missing.")
			p.goTo(tt.path)
			p.await(tt.texts...)
			if tt.actions != nil {
				tt.actions()
			}
			p.awaitMissing("Loading…")
			p.checkAccessibility(axe, tt.name)
		})
	}
	t.Run("sign-in", func(t *testing.T) {
		p.in(t)
		p.check(p.Reload())
		p.await("One-time code")
		p.fill("One-time code", "wrong")
		p.await("The code is wrong")
		p.checkAccessibility(axe, "sign-in")
	})
}
