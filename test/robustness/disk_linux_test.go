package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// smallDisk mounts a file system of the given size and returns its path. The file system is unmounted when the
// test ends. If it cannot be mounted, the test is skipped.
func smallDisk(t *testing.T, mebibytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes)); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill extends a file until its file system is full.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// asker sends requests to a server that might not be ready.
type asker struct {
	t    *testing.T
	base string
	http *http.Client
}

func newAsker(t *testing.T, s *testserver.Server) *asker {
	t.Helper()
	client, err := rest.HTTPClientFor(s.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &asker{t, s.URL(), client}
}

// ask sends a request and returns the status code and the body of the response. The code is 0 if there is no
// response.
func (a *asker) ask(method, path, body string) (int, string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// want sends a request and checks that the response has the given code and that its body contains says.
func (a *asker) want(code int, says, method, path, body string) {
	a.t.Helper()
	if got, answer := a.ask(method, path, body); got != code || !strings.Contains(answer, says) {
		a.t.Errorf("%s %s: %d %.300q, want %d and %q", method, path, got, answer, code, says)
	}
}

// await repeats a request until the response has the given status code.
func (a *asker) await(code int, method, path, body string) {
	a.t.Helper()
	var got int
	var answer string
	for deadline := time.Now().Add(requestTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got, answer = a.ask(method, path, body); got == code {
			return
		}
	}
	a.t.Fatalf("%s %s: %d %.300q, want %d", method, path, got, answer, code)
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func configMap(name string, size int, finalizers ...string) string {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": name, "finalizers": finalizers},
		"data":     map[string]string{"padding": strings.Repeat("x", size)},
	})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// TestFullDisk fills the disk of a running server, and then starts the server on the full disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 80)
	filler := filepath.Join(disk, "filler")
	s := testserver.New(t, testserver.Options{Dir: filepath.Join(disk, "data"), Flags: []string{"--history-retention=1s"}})
	a := newAsker(t, s)
	for i := range 10 {
		a.want(201, "", "POST", configMaps, configMap(fmt.Sprintf("c%d", i), 1000))
	}
	a.want(201, "", "POST", configMaps, configMap("held", 10, "example.com/wait"))

	fill(t, filler)
	for i := 0; ; i++ { // the space that is reserved for the log is used first
		if code, _ := a.ask("POST", configMaps, configMap(fmt.Sprintf("more%d", i), 100_000)); code != 201 {
			break
		}
	}
	a.await(200, "DELETE", configMaps+"/c0", "")
	a.await(507, "POST", configMaps, configMap("new", 10))
	a.want(507, "until space is freed", "PUT", configMaps+"/c1", configMap("c1", 10))
	a.want(200, "deletionTimestamp", "DELETE", configMaps+"/held", "")
	a.want(200, "", "PUT", configMaps+"/held", configMap("held", 10))
	a.want(404, "", "GET", configMaps+"/held", "")
	a.want(200, "c9", "GET", configMaps, "")
	a.want(200, "ok", "GET", "/livez", "")
	a.want(500, "", "GET", "/readyz", "")
	a.want(500, "no space left for the store", "GET", "/readyz/etcd-readiness", "")

	s.Kill()
	if err := os.Remove(filepath.Join(s.Dir(), "store", "RESERVE")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	fill(t, filler)
	process := startUnready(t, s)
	a.http.CloseIdleConnections()
	a.await(200, "GET", "/livez", "")
	a.want(500, "", "GET", "/readyz", "")
	a.want(500, "no space left for the store", "GET", "/readyz/etcd-readiness", "")
	a.want(200, "c9", "GET", configMaps, "")
	a.want(404, "", "GET", configMaps+"/c0", "")
	a.want(507, "until space is freed", "POST", configMaps, configMap("new", 10))
	a.want(507, "until space is freed", "DELETE", configMaps+"/c2", "")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.await(200, "GET", "/readyz", "")
	a.want(201, "", "POST", configMaps, configMap("new", 10))
	process.stop(t)
	if log := process.log.String(); strings.Contains(log, "corrupt") || strings.Contains(log, "damaged") {
		t.Errorf("a full disk is reported as another error:\n%s", log)
	}
}

// unready is a server process that does not become ready.
type unready struct {
	cmd *exec.Cmd
	log testserver.Buffer
}

// startUnready starts a stopped server again, with its directory and port, and does not wait until it is ready.
func startUnready(t *testing.T, s *testserver.Server, flags ...string) *unready {
	t.Helper()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	port := s.URL()[strings.LastIndexByte(s.URL(), ':')+1:]
	p := &unready{cmd: exec.Command(binary, append([]string{"serve", "--data-dir=" + s.Dir(), "--secure-port=" + port}, flags...)...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // if it is still running
	return p
}

func (p *unready) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, p.log.String())
	}
}

// TestLostLog kills a server, damages its newest log file, and starts the server again.
func TestLostLog(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(log string, size int64) error{
		"removed": func(log string, _ int64) error { return os.Remove(log) },
		"emptied": func(log string, _ int64) error { return os.Truncate(log, 0) },
		"halved":  func(log string, size int64) error { return os.Truncate(log, size/2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testserver.New(t, testserver.Options{})
			a := newAsker(t, s)
			for i := range 150 {
				a.want(201, "", "POST", configMaps, configMap(fmt.Sprintf("c%d", i), 500))
			}
			before := revisionOf(a)
			s.Kill()
			log, size := newestLog(t, s)
			if err := damage(log, size); err != nil {
				t.Fatal(err)
			}
			refused := startUnready(t, s)
			var exit *exec.ExitError
			if err := refused.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("the start ended with %v", err)
			}
			if log := refused.log.String(); !strings.Contains(log, "were acknowledged") || !strings.Contains(log, "--accept-lost-writes") {
				t.Errorf("the start logs %q", log)
			}
			if out, err := mainstay(t, "check", "--data-dir="+s.Dir()); err == nil || !strings.Contains(out, "were acknowledged") && !strings.Contains(out, "is damaged") {
				t.Errorf("check: %v, %s", err, out)
			}
			accepted := startUnready(t, s, "--accept-lost-writes")
			a.http.CloseIdleConnections()
			a.await(200, "GET", "/readyz", "")
			if after := revisionOf(a); after < before+1_000_000_000 {
				t.Errorf("revision %d, and %d before", after, before)
			}
			a.want(200, `"code":410`, "GET", fmt.Sprintf("%s?watch=true&timeoutSeconds=1&resourceVersion=%d", configMaps, before), "")
			a.want(201, "", "POST", configMaps, configMap("after", 10))
			accepted.stop(t)
			if out, err := mainstay(t, "check", "--data-dir="+s.Dir()); err != nil {
				t.Errorf("check: %v, %s", err, out)
			}
		})
	}
}

// mainstay runs a command of the mainstay binary and returns its output.
func mainstay(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	return string(bytes.TrimSpace(out)), err
}

// newestLog returns the path of the newest log file of the store, and the size of this file in bytes.
func newestLog(t *testing.T, s *testserver.Server) (name string, size int64) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(s.Dir(), "store", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	name = slices.Max(logs)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, info.Size()
}

func revisionOf(a *asker) (revision int64) {
	a.t.Helper()
	var list struct{ Metadata metadata }
	code, body := a.ask("GET", configMaps+"?limit=1", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 {
		a.t.Fatalf("list: %d %s", code, body)
	}
	if _, err := fmt.Sscan(list.Metadata.ResourceVersion, &revision); err != nil {
		a.t.Fatal(err)
	}
	return revision
}
