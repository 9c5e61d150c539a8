package console

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/proto"

	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/test/testserver"
)

// terminalSize is a message of the resize stream, in characters.
type terminalSize struct{ Width, Height int }

// hostileOutput contains escape sequences that change the title, write to the clipboard, open links and
// windows, and return the title as input.
var hostileOutput = strings.Join([]string{
	"\x1b[38;5;99999999999m\x1b[999999999;999999999H\x1b[H\x1b[2J\xff\xfe\x00",
	"\x1b]0;hacked\a", "\x1b]2;hacked\a", "\x1b[21t", "\x1b[20t", "\x1b[8;1;1t", "\x1b[4;1;1t",
	"\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte("hacked")) + "\a", "\x1b]52;c;?\a",
	"\x1b]8;;https://evil.example/\x1b\\evil-link\x1b]8;;\x1b\\ ", "\x1b]8;;" + scriptLink + "\aevil-script\x1b]8;;\a ", "https://evil.example/plain ",
	"\x1b]1337;File=inline=1:" + base64.StdEncoding.EncodeToString([]byte(imageMarkup)) + "\a", "\x1b]4;1;" + imageMarkup + "\a", "\x1b]10;url(https://evil.example/)\a", "\x1bP0;1|17/6162\x1b\\",
	imageMarkup, scriptMarkup, "\r\n",
}, "")

// runTTY runs a shell with a terminal. Like the terminal of an operating system, it echoes its input.
func runTTY(c *kubelettest.Command) int {
	var size atomic.Pointer[terminalSize]
	resized := make(chan struct{}, 1)
	go func() {
		for sizes := json.NewDecoder(c.Resize); ; {
			next := new(terminalSize)
			if sizes.Decode(next) != nil {
				return
			}
			size.Store(next)
			select {
			case resized <- struct{}{}:
			default:
			}
		}
	}()
	<-resized
	in, line := bufio.NewReader(c.Stdin), ""
	fmt.Fprintf(c.Stdout, "%s\r\n\x1b[1;32mpod\x1b[0m$ ", strings.Join(c.Args, "|"))
	for {
		typed, _, err := in.ReadRune()
		if err != nil {
			return 0
		}
		if typed != '\r' {
			line += string(typed)
			fmt.Fprint(c.Stdout, string(typed))
			continue
		}
		fmt.Fprint(c.Stdout, "\r\n")
		switch line {
		case "size":
			fmt.Fprintf(c.Stdout, "%dx%d", size.Load().Width, size.Load().Height)
		case "colors":
			fmt.Fprint(c.Stdout, "\x1b[31mred\x1b[0m \x1b[38;2;10;200;30mgreen\x1b[0m \x1b[48;5;21mblue\x1b[0m \x1b[30;40minvisible\x1b[0m \x1b[3;4;9mitalic\x1b[0m")
		case "flood":
			for range 1000 { // 32 MB
				fmt.Fprint(c.Stdout, strings.Repeat(strings.Repeat("x", 78)+"\r\n", 400))
			}
		case "hostile":
			fmt.Fprint(c.Stdout, hostileOutput)
		case "fail":
			return 3
		case "exit":
			return 0
		default:
			fmt.Fprintf(c.Stdout, "got %q", line)
		}
		fmt.Fprint(c.Stdout, "\r\n$ ")
		line = ""
	}
}

// typeLine types a line into the focused element.
func (p *page) typeLine(text string) {
	p.t.Helper()
	p.check(p.InsertText(text))
	p.check(p.Keyboard.Type(input.Enter))
}

// TestTTY checks commands with a terminal.
func TestTTY(t *testing.T) {
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
	p := openPage(t, browser, startConsole(t, s.Kubeconfig()), "/console/objects/core/pods/default/web?tab=Terminal")
	p.expect("WebSocket connection to") // the kubelet may send output after a command was stopped

	// start runs a shell, and waits until it shows its prompt and has the focus.
	start := func(t *testing.T, command string, texts ...string) {
		p.in(t)
		p.fill("Command", command)
		p.await(append(texts, "pod$", "Stop")...)
		p.awaitTrue(`document.activeElement.matches(".xterm textarea")`)
	}

	t.Run("Input", func(t *testing.T) {
		start(t, `/bin/sh -c 'a  b' ""`, "/bin/sh|-c|a  b|")
		p.typeLine("grün 🚀 日本")
		p.await(`got "grün 🚀 日本"`)
		p.check(p.Keyboard.Type(input.KeyA, input.Backspace, input.ArrowUp, input.Tab, input.Enter))
		p.await(`got "a\x7f\x1b[A\t"`)
		p.check(p.KeyActions().Press(input.ControlLeft).Type('c').Release(input.ControlLeft).Type(input.Enter).Do())
		p.await(`got "\x03"`)
		p.typeLine("colors")
		p.await("red green blue invisible italic")
		p.awaitTrue(`[...document.querySelectorAll(".xterm-rows span")].some((span) => span.textContent === "green" && getComputedStyle(span).color === "rgb(10, 200, 30)")`)
		p.awaitTrue(`[...document.querySelectorAll(".xterm-rows span")].some((span) => span.textContent === "red" && getComputedStyle(span).color !== getComputedStyle(document.body).color)`)
		p.screenshot("colors")
	})

	t.Run("Resize", func(t *testing.T) {
		p.in(t)
		// size returns the last size that the shell has printed, or "" if it has not yet printed one.
		size := func() string {
			return p.eval(`document.querySelector(".xterm-rows").textContent.match(/\d+x\d+/g)?.at(-1) ?? ""`)
		}
		p.typeLine("size")
		p.poll(func() bool { return size() != "" }, func() string { return "there is no size" })
		before := size()
		p.resize(900, 700)
		defer p.resize(1280, 800)
		p.poll(func() bool {
			p.typeLine("size")
			return size() != before
		}, func() string { return "the size has not changed" })
		p.screenshot("resized")
	})

	// The page discards output that arrives faster than it can be shown, and stays usable.
	t.Run("Flood", func(t *testing.T) {
		p.in(t)
		p.typeLine("flood")
		p.await("xxxxxxxx")
		p.poll(func() bool {
			p.typeLine("after")
			return p.eval(`String(document.querySelector(".xterm-rows").textContent.includes('got "after"'))`) == "true"
		}, func() string { return "the shell does not respond" })
		p.screenshot("flood")
	})

	t.Run("Exit", func(t *testing.T) {
		p.in(t)
		p.typeLine("fail")
		p.await("command terminated with non-zero exit code", "3", "Run", "got")
		awaitCommand(t, ended)
		p.screenshot("exit-code")
		start(t, "sh")
		p.awaitMissing("non-zero exit code")
		p.typeLine("exit")
		p.await("Run", "exit")
		awaitCommand(t, ended)
		p.awaitTrue(`document.querySelector(".note.error") === null`)
	})

	t.Run("Stop", func(t *testing.T) {
		start(t, "sh")
		p.check(p.KeyActions().Press(input.ShiftLeft).Type(input.Tab).Release(input.ShiftLeft).Do())
		p.awaitTrue(`document.activeElement.type === "checkbox"`)
		p.click("Stop")
		p.await("Run")
		awaitCommand(t, ended) // the input of the command has ended
		start(t, "sh")
		p.click("Summary") // closes the connection
		awaitCommand(t, ended)
		p.awaitTrue(`document.adoptedStyleSheets.length === 0`)
		p.click("Terminal")
	})

	t.Run("Hostile", func(t *testing.T) {
		p.in(t)
		_, err := p.Eval(`() => {
			window.calls = [];
			window.open = (...args) => { window.calls.push("open " + args); return null; };
			window.confirm = (text) => { window.calls.push("confirm " + text); return true; };
			for (const name of ["readText", "read", "writeText", "write"]) navigator.clipboard[name] = async (text) => { window.calls.push(name + " " + text); return "clipboard"; };
			document.execCommand = (name) => window.calls.push(name);
		}`)
		p.check(err)
		title := p.eval(`document.title`)
		start(t, "sh")
		p.typeLine("hostile")
		p.await("evil-link", "evil-script", "https://evil.example/plain", imageMarkup)
		p.typeLine("after")
		p.await("after\"")
		p.screenshot("hostile")
		for _, text := range []string{"evil-link", "evil-script", "https://evil.example/plain"} {
			box, err := p.Eval(`(text) => {
				const walker = document.createTreeWalker(document.querySelector(".xterm-rows"), NodeFilter.SHOW_TEXT);
				for (let node = walker.nextNode(); node; node = walker.nextNode()) {
					if (!node.data.includes(text)) continue;
					const range = document.createRange();
					range.setStart(node, node.data.indexOf(text) + 1);
					range.setEnd(node, node.data.indexOf(text) + 3);
					const { x, y, height } = range.getBoundingClientRect();
					return [x, y + height / 2];
				}
			}`, text)
			p.check(err)
			p.check(p.Mouse.MoveTo(proto.NewPoint(box.Value.Get("0").Num(), box.Value.Get("1").Num())))
			p.check(p.Mouse.Click(proto.InputMouseButtonLeft, 1))
		}
		if calls := p.eval(`JSON.stringify(window.calls)`); calls != "[]" {
			t.Errorf("the output caused %s", calls)
		}
		if after := p.eval(`document.title`); after != title {
			t.Errorf("the title is %q, want %q", after, title)
		}
		p.checkMarkup("terminal")
		p.awaitMissing("hacked\" got")
		p.awaitMissing("clipboard")
	})

	t.Run("Accessibility", func(t *testing.T) {
		axe := axeSource(t)
		p.in(t)
		p.checkAccessibility(axe, "running")
		p.clickXPath(`//label[contains(., "Text for screen readers")]/input`)
		p.awaitTrue(`document.querySelector(".xterm-accessibility").innerText.includes("evil-link")`)
		p.checkAccessibility(axe, "screen-reader")
		p.click("Stop")
		p.await("Run")
		p.checkAccessibility(axe, "stopped")
	})
}
