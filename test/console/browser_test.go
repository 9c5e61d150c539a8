package console

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/launcher"
	"github.com/go-rod/rod/lib/launcher/flags"
	"github.com/go-rod/rod/lib/proto"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// pageTimeout is the maximum time to wait for the content of a page. It is long, because several test processes
// share the processors.
const pageTimeout = 2 * time.Minute

// browserPath returns the path of Chromium, or skips the test if Chromium is not installed.
func browserPath(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("Chromium is not installed: install the package chromium to run the tests of the console")
	return ""
}

// newBrowser starts a browser with a new profile and the additional command-line switches. The browser stops
// when the test ends.
func newBrowser(t testing.TB, switches ...flags.Flag) *rod.Browser {
	t.Helper()
	l := launcher.New().Bin(browserPath(t)).Leakless(false).NoSandbox(true).UserDataDir(t.TempDir()).
		Set("disable-gpu").Set("disable-quic").Set("disable-component-update").Set("disable-sync").Set("disable-dev-shm-usage")
	for _, name := range switches {
		l.Set(name)
	}
	url, err := l.Launch()
	if err != nil {
		t.Fatal(err)
	}
	browser := rod.New().ControlURL(url)
	if err := browser.Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = browser.Close()
		l.Cleanup() // waits for the browser, and deletes its profile
	})
	return browser
}

// console is a running "mainstay console" command.
type console struct {
	address string // http://127.0.0.1:PORT
	stdin   io.Writer
	urls    <-chan string // a URL with a code after each line on stdin
}

// startConsole runs "mainstay console" with a kubeconfig until the test ends.
func startConsole(t testing.TB, kubeconfig string) *console {
	t.Helper()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, "console", "--no-browser", "--kubeconfig="+kubeconfig)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	urls := make(chan string, 100)
	go func() {
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			if strings.HasPrefix(scanner.Text(), "http://") {
				urls <- scanner.Text()
			}
		}
		close(urls)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		if err := command.Wait(); err != nil {
			t.Errorf("mainstay console: %v", err)
		}
	})
	first := <-urls
	address, _, ok := strings.Cut(first, "/console/")
	if !ok {
		t.Fatalf("the first URL is %q", first)
	}
	return &console{address: address, stdin: stdin, urls: urls}
}

// code requests a new one-time code and returns it.
func (c *console) code(t testing.TB) string {
	t.Helper()
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case url := <-c.urls:
		_, code, _ := strings.Cut(url, "#code=")
		return code
	case <-time.After(pageTimeout):
		t.Fatal("there is no new code")
		return ""
	}
}

// page is a browser tab that shows the console.
type page struct {
	*rod.Page
	t       testing.TB
	console *console

	mu       sync.Mutex
	problems []string // errors and warnings of the page, such as violations of the Content-Security-Policy
	expected []string // parts of problems that are expected
}

// openPage opens the console at a path, such as /console/objects/core/pods, and signs in.
func openPage(t testing.TB, browser *rod.Browser, c *console, path string) *page {
	t.Helper()
	tab, err := browser.Page(proto.TargetCreateTarget{URL: "about:blank"})
	if err != nil {
		t.Fatal(err)
	}
	p := &page{Page: tab, t: t, console: c}
	p.listen()
	t.Cleanup(func() {
		if t.Failed() {
			p.screenshot("failed")
		}
		p.mu.Lock()
		for _, problem := range p.problems {
			t.Errorf("the page reports: %s", problem)
		}
		p.mu.Unlock()
		_ = tab.Close()
	})
	p.resize(1280, 800)
	p.signIn(path)
	return p
}

// resize sets the size of the visible part of the page, in pixels.
func (p *page) resize(width, height int) {
	p.t.Helper()
	p.check(p.SetViewport(&proto.EmulationSetDeviceMetricsOverride{Width: width, Height: height, DeviceScaleFactor: 1}))
}

// signIn loads the page at path with a new one-time code.
func (p *page) signIn(path string) {
	p.t.Helper()
	p.check(p.Navigate("about:blank"))
	p.check(p.Navigate(p.console.address + path + "#code=" + p.console.code(p.t)))
	p.awaitTrue(`document.querySelector(".topbar") !== null`)
}

// listen records errors and warnings of the page as problems.
func (p *page) listen() {
	add := func(problem string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.ContainsFunc(p.expected, func(expected string) bool { return strings.Contains(problem, expected) }) {
			p.problems = append(p.problems, problem)
		}
	}
	p.EnableDomain(proto.LogEnable{})
	p.EnableDomain(proto.RuntimeEnable{})
	go p.EachEvent(
		func(e *proto.RuntimeExceptionThrown) {
			text := e.ExceptionDetails.Text
			if e.ExceptionDetails.Exception != nil {
				text += " " + e.ExceptionDetails.Exception.Description
			}
			add(text)
		},
		func(e *proto.RuntimeConsoleAPICalled) {
			if e.Type == proto.RuntimeConsoleAPICalledTypeError || e.Type == proto.RuntimeConsoleAPICalledTypeWarning {
				add(fmt.Sprintf("console.%s %s", e.Type, e.Args[0].Value))
			}
		},
		func(e *proto.LogEntryAdded) {
			if e.Entry.Level == proto.LogLogEntryLevelError || e.Entry.Level == proto.LogLogEntryLevelWarning {
				add(e.Entry.Text + " " + e.Entry.URL)
			}
		},
	)()
}

// expect makes the page ignore problems that contain a text.
func (p *page) expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

// check ends the test if err is not nil. The message includes the text of the page.
func (p *page) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%v; the page shows:\n%s", err, p.text("body"))
	}
}

// goTo shows the page of the console at path without signing in again.
func (p *page) goTo(path string) {
	p.t.Helper()
	_, err := p.Eval(`(path) => { history.pushState(null, "", path); dispatchEvent(new PopStateEvent("popstate")) }`, path)
	p.check(err)
}

// text returns the visible text of the first element that matches a CSS selector, or "" if there is none.
func (p *page) text(selector string) string {
	p.t.Helper()
	found, err := p.Eval(`(selector) => document.querySelector(selector)?.innerText ?? ""`, selector)
	if err != nil {
		return err.Error()
	}
	return found.Value.Str()
}

// allText is a JavaScript function that returns the text of the page, including the text of editors, which is
// in shadow roots.
const allText = `() => [document.body.innerText, ...[...document.querySelectorAll(".editor")].map((e) => e.shadowRoot?.textContent ?? "")].join("\n")`

// await waits until the page shows all texts.
func (p *page) await(texts ...string) {
	p.t.Helper()
	var missing []string
	p.poll(func() bool {
		found, err := p.Eval(allText)
		if err != nil {
			missing = []string{err.Error()}
			return false
		}
		missing = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(found.Value.Str(), text) })
		return len(missing) == 0
	}, func() string { return fmt.Sprintf("it lacks %q", missing) })
}

// awaitMissing waits until the page no longer shows a text.
func (p *page) awaitMissing(text string) {
	p.t.Helper()
	p.poll(func() bool {
		found, err := p.Eval(allText)
		return err == nil && !strings.Contains(found.Value.Str(), text)
	}, func() string { return fmt.Sprintf("it contains %q", text) })
}

// awaitTrue waits until a JavaScript expression is true.
func (p *page) awaitTrue(expression string) {
	p.t.Helper()
	p.poll(func() bool {
		found, err := p.Eval("() => Boolean(" + expression + ")")
		return err == nil && found.Value.Bool()
	}, func() string { return expression + " is not true" })
}

// poll waits until condition returns true. After pageTimeout, it ends the test with the message that problem
// returns.
func (p *page) poll(condition func() bool, problem func() string) {
	p.t.Helper()
	for deadline := time.Now().Add(pageTimeout); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s; the page shows:\n%s", problem(), p.text("body"))
		}
	}
}

// find waits for the element that matches an XPath and returns it.
func (p *page) find(xpath string) *rod.Element {
	p.t.Helper()
	element, err := p.Timeout(pageTimeout).ElementX(xpath)
	p.check(err)
	return element.CancelTimeout()
}

// click clicks the button, link, tab or heading that has the given text or label.
func (p *page) click(text string) {
	p.t.Helper()
	element := p.find(fmt.Sprintf(`(//button|//a|//summary|//*[@role="link"])[normalize-space(.)=%q or @aria-label=%q]`, text, text))
	p.check(element.Timeout(pageTimeout).Click(proto.InputMouseButtonLeft, 1))
}

// fill replaces the text of the input field with the given label and presses Enter.
func (p *page) fill(label, text string) {
	p.t.Helper()
	field := p.find(fmt.Sprintf(`(//input|//textarea)[@aria-label=%q or ancestor::label[starts-with(normalize-space(.), %q)]]`, label, label))
	p.check(field.SelectAllText())
	if text == "" {
		p.check(field.Type(input.Backspace))
	} else {
		p.check(field.Input(text))
	}
	p.check(field.Type(input.Enter))
}

// edit replaces the text of the editor with the given label.
func (p *page) edit(label, text string) {
	p.t.Helper()
	script := `(label) => [...document.querySelectorAll(".editor")].map((e) => e.shadowRoot?.querySelector(".cm-content")).find((e) => e?.getAttribute("aria-label") === label)`
	var editor *rod.Element
	p.poll(func() (found bool) {
		var err error
		editor, err = p.Sleeper(rod.NotFoundSleeper).ElementByJS(rod.Eval(script, label))
		return err == nil
	}, func() string { return "there is no editor " + label })
	p.check(editor.Focus())
	p.check(p.KeyActions().Press(input.ControlLeft).Type('a').Release(input.ControlLeft).Do())
	p.check(p.InsertText(text))
}

// screenshot saves the visible part of the page in the artifact directory of the test.
func (p *page) screenshot(name string) {
	p.t.Helper()
	image, err := p.Screenshot(false, nil)
	if err != nil {
		p.t.Logf("take a screenshot: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), name+".png"), image, 0o600); err != nil {
		p.t.Error(err)
	}
}
