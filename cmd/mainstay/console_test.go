package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// consoleTest is a running "mainstay console" command.
type consoleTest struct {
	*testing.T
	input  io.Writer
	output *bufio.Reader
	opened chan string // the URLs that the command opened in the browser
	stop   context.CancelFunc
	ended  chan error
}

// startConsole runs the command in the background until the end of the test.
func startConsole(t *testing.T, command consoleCommand) *consoleTest {
	t.Helper()
	in, input := io.Pipe()
	output, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	c := &consoleTest{T: t, input: input, output: bufio.NewReader(output), opened: make(chan string, 10), stop: stop, ended: make(chan error, 1)}
	command.in, command.out = in, out
	if command.address == "" {
		command.address = "127.0.0.1:0"
	}
	if command.open == nil {
		command.open = func(page string) error { c.opened <- page; return nil }
	}
	go func() { c.ended <- command.run(ctx); _ = out.Close() }() // ends with ctx
	t.Cleanup(func() {
		stop()
		_, _ = io.Copy(io.Discard, output)
		_ = in.Close()
	})
	return c
}

// line returns the next line of the output.
func (c *consoleTest) line() string {
	c.Helper()
	line, err := c.output.ReadString('\n')
	if err != nil {
		c.Fatalf("read the output: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// page reads the next line of the output, which is a URL, and returns its address, path and code.
func (c *consoleTest) page() (address, path, code string) {
	c.Helper()
	url := c.line()
	page, code, ok := strings.Cut(url, "#code=")
	host, isHTTP := strings.CutPrefix(page, "http://")
	slash := strings.IndexByte(host, '/')
	if !ok || !isHTTP || slash < 0 || len(code) < 26 {
		c.Fatalf("the output has %q instead of a URL with a code", url)
	}
	return "http://" + host[:slash], host[slash:], code
}

// exchange exchanges a code for a session token.
func (c *consoleTest) exchange(address, code string) (status int, token string) {
	c.Helper()
	response, err := http.Post(address+"/console/session", "text/plain", strings.NewReader(code))
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// get sends an authenticated GET. It ends the test if no response is received.
func (c *consoleTest) get(url, token string) *http.Response {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), "GET", url, nil)
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// TestConsole uses the console with a real server, and stops the command during a watch.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := testserver.New(t, testserver.Options{Dir: filepath.Join(t.TempDir(), "data")})
	c := startConsole(t, consoleCommand{kubeconfig: filepath.Join(s.Dir(), "admin.kubeconfig")})
	if first := c.line(); !strings.Contains(first, s.URL()) || !strings.Contains(first, "Press Enter") {
		t.Errorf("the first line is %q", first)
	}
	address, path, code := c.page()
	if opened := <-c.opened; path != "/console/" || opened != address+path+"#code="+code {
		t.Errorf("the path is %s, and the browser opened %s", path, opened)
	}
	if response := c.get(address+path, ""); response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the page: %s %v", response.Status, response.Header)
	}
	if response := c.get(address+"/api/v1/namespaces", code); response.StatusCode != 401 {
		t.Errorf("the code as a token: %s", response.Status)
	}
	status, token := c.exchange(address, code)
	if status != 200 {
		t.Fatalf("exchange: %d %s", status, token)
	}
	if status, body := c.exchange(address, code); status != 401 {
		t.Errorf("second use of a code: %d %s", status, body)
	}

	// Enter replaces the code; the session remains.
	_, _ = io.WriteString(c.input, "\n")
	_, _, second := c.page()
	_, _ = io.WriteString(c.input, "text\n")
	_, _, third := c.page()
	if code == second || second == third {
		t.Errorf("the codes are %s, %s, %s", code, second, third)
	}
	if status, _ := c.exchange(address, third); status != 200 {
		t.Errorf("exchange of a new code: %d", status)
	}
	watch := c.get(address+"/api/v1/namespaces?watch=1", token)
	event, err := bufio.NewReader(watch.Body).ReadString('\n')
	if watch.StatusCode != 200 || err != nil || !strings.Contains(event, `"ADDED"`) {
		t.Fatalf("watch: %s %s %v", watch.Status, event, err)
	}
	c.stop()
	select {
	case err := <-c.ended:
		if err != nil {
			t.Errorf("the command ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command does not stop during a watch")
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(address, "http://")); err == nil {
		t.Error("the port is open after the end of the command")
	}
}

// writeKubeconfig writes a kubeconfig for a server that is not running, and returns its path.
func writeKubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestConsolePages checks the URLs of control planes, the effect of --no-browser, and the output if the browser
// cannot be started.
func TestConsolePages(t *testing.T) {
	t.Parallel()
	file := writeKubeconfig(t)
	failed := func(string) error { return errors.New("no browser") }
	for _, tt := range []struct {
		command consoleCommand
		host    string
		path    string
		opened  int
		message string
	}{
		{consoleCommand{}, "http://127.0.0.1:", "/console/", 1, ""},
		{consoleCommand{controlPlane: "team-a", noBrowser: true}, "http://127.0.0.1:", "/clusters/team-a/console/", 0, ""},
		{consoleCommand{controlPlane: "a/../b#c"}, "http://127.0.0.1:", "/clusters/a%2F..%2Fb%23c/console/", 1, ""},
		{consoleCommand{address: "localhost:0", open: failed}, "http://", "/console/", 0, "Open this URL in a browser (no browser)."},
		{consoleCommand{noBrowser: true, open: failed}, "http://127.0.0.1:", "/console/", 0, ""},
	} {
		tt.command.kubeconfig = file
		c := startConsole(t, tt.command)
		c.line()
		address, path, _ := c.page()
		if !strings.HasPrefix(address, tt.host) || path != tt.path {
			t.Errorf("the address is %s, the path %s; want %s, %s", address, path, tt.host, tt.path)
		}
		if tt.message != "" {
			if got := c.line(); got != tt.message {
				t.Errorf("the message is %q, want %q", got, tt.message)
			}
		}
		c.stop()
		if err := <-c.ended; err != nil {
			t.Errorf("the command ended with %v", err)
		}
		if len(c.opened) != tt.opened {
			t.Errorf("%s: the browser was opened %d times, want %d", tt.path, len(c.opened), tt.opened)
		}
	}
}

// TestConsoleUsage checks the errors for invalid arguments, and that a signal stops the command.
func TestConsoleUsage(t *testing.T) {
	t.Parallel()
	file := "--kubeconfig=" + writeKubeconfig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{file, "--address=0.0.0.0:0"}, 2, "loopback"},
		{[]string{file, "--address=192.0.2.1:80"}, 2, "loopback"},
		{[]string{file, "--address=[::]:0"}, 2, "loopback"},
		{[]string{file, "--address=:8080"}, 2, "loopback"},
		{[]string{file, "--address=example.com:80"}, 2, "loopback"},
		{[]string{file, "--address=127.0.0.1"}, 2, "loopback"},
		{[]string{file, "--address="}, 2, "loopback"},
		{[]string{file, "--address=127.0.0.1:x"}, 1, "serve the console"},
		{[]string{file, "--address=" + listener.Addr().String()}, 1, "serve the console"},
		{[]string{"--kubeconfig=" + filepath.Join(t.TempDir(), "none")}, 1, "read the kubeconfig"},
		{[]string{file, "argument"}, 2, "argument"},
		{[]string{file}, 0, "/console/#code="}, // a signal stops it
	} {
		var output bytes.Buffer
		code := run(append([]string{"console", "--no-browser"}, tt.args...), &output, &output, process{signals: terminatedIf(tt.code == 0)})
		if code != tt.code || !strings.Contains(output.String(), tt.want) {
			t.Errorf("%q: exit code %d, want %d: %s", tt.args, code, tt.code, output.String())
		}
	}
}
