package console

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/test/testserver"
)

// shell returns a function that runs the commands of the containers. It sends each command line to ended when
// the command has ended.
func shell(ended chan<- string) func(*kubelettest.Command) int {
	return func(c *kubelettest.Command) int {
		line := strings.Join(c.Args, " ")
		defer func() { ended <- line }()
		if c.Resize != nil {
			return runTTY(c)
		}
		switch c.Args[0] {
		case "echo":
			fmt.Fprintln(c.Stdout, strings.Join(c.Args[1:], " "))
		case "fail":
			fmt.Fprintln(c.Stderr, "the disk is full")
			return 7
		case "upper":
			fmt.Fprintln(c.Stdout, "ready")
			for lines := bufio.NewScanner(c.Stdin); lines.Scan(); {
				if lines.Text() == "quit" {
					return 0
				}
				fmt.Fprintf(c.Stdout, "got %s\n", strings.ToUpper(lines.Text()))
			}
		}
		return 0
	}
}

// awaitCommand waits until a command has ended.
func awaitCommand(t *testing.T, ended <-chan string) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(pageTimeout):
		t.Fatal("the command has not ended")
	}
}

// withoutTTY clears the checkbox that selects a terminal for commands.
func (p *page) withoutTTY() {
	p.t.Helper()
	p.clickXPath(`//label[contains(., "Terminal (TTY)")]/input`)
}

// createPod creates a node with a kubelet, and on this node a pod with the containers main and side.
func createPod(u *apiUser, name string, kubeletPort int) {
	u.t.Helper()
	u.apply("/api/v1/nodes/"+name, "{apiVersion: v1, kind: Node, metadata: {name: "+name+"}}")
	u.apply("/api/v1/nodes/"+name+"/status", fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {addresses: [{type: InternalIP, address: 127.0.0.1}],
  daemonEndpoints: {kubeletEndpoint: {Port: %d}}}}`, name, kubeletPort))
	u.apply("/api/v1/namespaces/default/pods/"+name, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: %[1]s, automountServiceAccountToken: false,
  containers: [{name: main, image: a}, {name: side, image: b}]}}`, name))
	u.apply("/api/v1/namespaces/default/pods/"+name+"/status", fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, status: {phase: Running}}`, name))
}

// TestTerminal checks the tabs Logs and Terminal of a pod, both with "mainstay console" and on pages that the
// server itself serves.
func TestTerminal(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	testserver.Eventually(t, pageTimeout, func() error { // pods require the service account
		if admin.get("/api/v1/namespaces/default/serviceaccounts/default") == nil {
			return fmt.Errorf("the service account default does not exist")
		}
		return nil
	})
	kubelet := kubelettest.New(t)
	ended := make(chan string, 100)
	kubelet.Run = shell(ended)
	createPod(admin, "web", kubelet.Port())
	gone := kubelettest.New(t)
	createPod(admin, "unreachable", gone.Port())
	gone.Close()
	admin.apply("/api/v1/namespaces/default/pods/pending", `{apiVersion: v1, kind: Pod, metadata: {name: pending}, spec: {automountServiceAccountToken: false, containers: [{name: main, image: a}]}}`)
	admin.apply(rbacAPI+"clusterroles/exec", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: exec},
  rules: [{verbs: [get, create], apiGroups: [""], resources: [pods/exec, pods/log]}]}`)

	const path = "/console/objects/core/pods/default/"
	pages := map[string]func(t *testing.T) *page{
		"Local": func(t *testing.T) *page { return openPage(t, browser, startConsole(t, s.Kubeconfig()), path+"web") },
		"Direct": func(t *testing.T) *page {
			p := openDirect(t, browser, s.URL()+path+"web")
			p.await("Bearer token")
			p.fill("Bearer token", admin.serviceAccountToken("operator", "view", "exec"))
			return p
		},
	}
	for name, open := range pages {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			p.expect("WebSocket connection to")
			p.expect("the server responded with a status of")
			p.await("Specification")

			t.Run("Logs", func(t *testing.T) {
				p.in(t)
				log, lines := io.Pipe()
				t.Cleanup(func() { _ = lines.Close() })
				kubelet.Log = func(r *http.Request) io.Reader {
					if strings.HasSuffix(r.URL.Path, "/side") {
						return strings.NewReader("log of the second container\n")
					}
					return log
				}
				p.click("Logs")
				p.await("The container has not written anything yet.")
				for _, line := range []string{"first line", "second line"} {
					if _, err := io.WriteString(lines, line+"\n"); err != nil {
						t.Fatal(err)
					}
					p.await(line)
				}
				p.awaitMissing("has not written anything")
				p.screenshot("logs")
				// A line that is waiting for the next frame does not appear in the log of another container.
				p.eval(`(window.waiting = [], window.requestAnimationFrame = (frame) => window.waiting.push(frame))`)
				if _, err := io.WriteString(lines, "late line\n"); err != nil {
					t.Fatal(err)
				}
				p.awaitTrue(`window.waiting.length > 0`)
				p.eval(`((select) => (select.value = "side", select.dispatchEvent(new Event("change", {bubbles: true}))))(document.querySelector("[role=tabpanel] select"))`)
				p.await("The container has not written anything yet.")
				p.eval(`(window.requestAnimationFrame = (frame) => setTimeout(frame), window.waiting.forEach((frame) => frame()))`)
				p.await("log of the second container")
				p.awaitMissing("first line")
				p.awaitMissing("late line")
			})

			t.Run("Run", func(t *testing.T) {
				p.in(t)
				p.goTo(path + "web")
				p.click("Terminal")
				p.awaitTrue(`document.querySelector("input[aria-label=Command]").value === "/bin/sh"`)
				p.withoutTTY()
				p.fill("Command", `echo hello "from  the" 'container'`)
				p.await("hello from  the container")
				awaitCommand(t, ended)
				p.await("Run") // the command has ended
				p.awaitTrue(`document.querySelector(".note.error") === null`)
				p.screenshot("echo")
			})

			t.Run("Fail", func(t *testing.T) {
				p.in(t)
				p.fill("Command", "fail")
				p.await("the disk is full", "command terminated with non-zero exit code", "7", "Run")
				p.awaitMissing("hello from")
				awaitCommand(t, ended)
				p.screenshot("exit-code")
			})

			t.Run("Input", func(t *testing.T) {
				p.in(t)
				p.fill("Command", "upper")
				p.await("ready", "Stop")
				p.awaitTrue(`document.activeElement === document.querySelector("input[name=line]")`)
				p.fill("Input", "grün 🚀")
				p.await("grün 🚀", "got GRÜN 🚀")
				p.fill("Input", "more")
				p.await("got MORE")
				p.screenshot("input")
				p.fill("Input", "quit")
				p.await("Run")
				awaitCommand(t, ended)
				p.awaitTrue(`document.querySelector(".note.error") === null`)
			})

			t.Run("Stop", func(t *testing.T) {
				p.in(t)
				p.fill("Command", "upper")
				p.await("ready")
				p.click("Stop")
				p.await("Run")
				awaitCommand(t, ended) // the input of the command has ended
				p.awaitTrue(`document.querySelector(".note.error") === null`)
				p.fill("Command", "upper")
				p.await("ready", "Stop")
				p.click("Summary") // closes the connection
				awaitCommand(t, ended)
			})

			t.Run("Container", func(t *testing.T) {
				p.in(t)
				p.click("Terminal")
				p.check(p.find(`//select[@aria-label="Container"]`).Select([]string{"^side$"}, true, "regex"))
				p.withoutTTY()
				p.fill("Command", `echo "second`)
				p.await(`The command line has no closing ".`)
				p.fill("Command", "echo second")
				p.await("second", "Run")
				awaitCommand(t, ended)
				requests := kubelet.Requests()
				if last := requests[len(requests)-1]; !strings.Contains(last, "/exec/default/web/side?") {
					t.Errorf("the kubelet received %s", last)
				}
			})

			t.Run("Unreachable", func(t *testing.T) {
				p.in(t)
				p.goTo(path + "unreachable?tab=Logs")
				p.await("connection refused")
				p.screenshot("logs-unreachable")
				p.goTo(path + "unreachable?tab=Terminal")
				p.fill("Command", "echo x")
				p.await("connection refused", "Run")
				p.screenshot("terminal-unreachable")
				p.goTo(path + "pending?tab=Logs")
				p.await("pending", "The container has not written anything yet.")
				p.goTo(path + "pending?tab=Terminal")
				p.fill("Command", "echo x")
				p.await("does not have a host assigned", "Run")
				p.screenshot("terminal-pending")
			})
		})
	}

	t.Run("Denied", func(t *testing.T) {
		p := openDirect(t, browser, s.URL()+path+"web?tab=Terminal")
		p.expect("WebSocket connection to")
		p.expect("status of 403")
		p.await("Bearer token")
		p.fill("Bearer token", admin.serviceAccountToken("viewer", "view"))
		p.fill("Command", "echo x")
		p.await(`User "system:serviceaccount:default:viewer" cannot`, `resource "pods/exec"`)
		p.screenshot("denied")
	})
}
