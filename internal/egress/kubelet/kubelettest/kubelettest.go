// Package kubelettest implements a kubelet for tests. It serves the protocols of kubelets with a
// few built-in commands and logs instead of containers.
package kubelettest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Kubelet is a kubelet that listens on a port of 127.0.0.1. Its fields may be changed before the
// first request. Its methods are safe for concurrent use.
type Kubelet struct {
	*httptest.Server
	// Log returns the log for a request. The default log contains the URL of the request.
	Log func(r *http.Request) io.Reader
	// Run runs a command and returns its exit code. For an attach request, the command has no arguments.
	Run func(command *Command) int
	// StatusMessage, unless empty, replaces the status message of a failed command.
	StatusMessage string

	mu       sync.Mutex
	requests []string
}

// New starts a kubelet and closes it when the test ends.
func New(t testing.TB) *Kubelet {
	k := &Kubelet{Run: run, Log: func(r *http.Request) io.Reader {
		return strings.NewReader("log of " + r.URL.Path + "?" + r.URL.RawQuery + "\n")
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/", k.log)
	mux.HandleFunc("POST /exec/{namespace}/{pod}/{container}", k.command)
	mux.HandleFunc("POST /attach/{namespace}/{pod}/{container}", k.command)
	mux.HandleFunc("POST /portForward/{namespace}/{pod}", k.forward)
	mux.HandleFunc("/redirect/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
	})
	mux.HandleFunc("/echo/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.RequestURI())
	})
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.requests = append(k.requests, r.Method+" "+r.URL.RequestURI())
		k.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	k.EnableHTTP2 = true // kubelets support HTTP/2
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

// Port returns the TCP port of the kubelet.
func (k *Kubelet) Port() int {
	_, port, _ := net.SplitHostPort(k.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	return number
}

// Requests returns the received requests in the form "METHOD URI". The caller owns the slice.
func (k *Kubelet) Requests() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.requests...)
}

func (k *Kubelet) log(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("previous") == "true" {
		http.Error(w, "previous terminated container not found", http.StatusBadRequest)
		return
	}
	lines := k.Log(r)
	buffer := make([]byte, 32<<10)
	for {
		n, err := lines.Read(buffer)
		if _, failed := w.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
		if r.URL.Query().Get("follow") == "true" {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// upgrade upgrades a connection to SPDY, and returns the streams that the client opens.
func upgrade(w http.ResponseWriter, r *http.Request, protocol string) (httpstream.Connection, <-chan httpstream.Stream) {
	if _, err := httpstream.Handshake(r, w, []string{protocol}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, nil
	}
	streams := make(chan httpstream.Stream, 8)
	return spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	}), streams
}

// Command is a command with its streams. Streams that the client did not request are nil.
type Command struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         io.Reader // sizes of the terminal, in JSON
}

func newCommand(args []string, streams map[string]httpstream.Stream) *Command {
	c := &Command{Args: args}
	// Assign only existing streams, because an interface that contains a nil stream is not nil.
	for name, stream := range streams {
		switch name {
		case "stdin":
			c.Stdin = stream
		case "stdout":
			c.Stdout = stream
		case "stderr":
			c.Stderr = stream
		case "resize":
			c.Resize = stream
		}
	}
	return c
}

// command serves exec and attach.
func (k *Kubelet) command(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if r.PathValue("container") == "gone" {
		http.Error(w, `container not found ("gone")`, http.StatusNotFound)
		return
	}
	connection, opened := upgrade(w, r, "v4.channel.k8s.io")
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	wanted := 1
	for _, name := range []string{"input", "output", "error", "tty"} {
		if query.Get(name) == "1" {
			wanted++
		}
	}
	streams := map[string]httpstream.Stream{}
	for len(streams) < wanted {
		select {
		case stream := <-opened:
			streams[stream.Headers().Get("streamType")] = stream
		case <-connection.CloseChan():
			return
		}
	}
	code := k.Run(newCommand(query["command"], streams))
	for _, name := range []string{"stdout", "stderr"} {
		if stream := streams[name]; stream != nil {
			_ = stream.Close()
		}
	}
	status := exit(code)
	if code != 0 && k.StatusMessage != "" {
		status.Message = k.StatusMessage
	}
	_ = json.NewEncoder(streams["error"]).Encode(status)
	_ = streams["error"].Close()
	<-connection.CloseChan() // wait until the client has received everything
}

// run implements the commands cat, exit CODE, and size, which prints the terminal size. An attach request runs
// cat. For any other command, run prints the command line.
func run(c *Command) (code int) {
	switch {
	case len(c.Args) == 0 || c.Args[0] == "cat":
		_, _ = io.Copy(c.Stdout, c.Stdin)
	case c.Args[0] == "exit" && len(c.Args) == 2:
		_, _ = io.WriteString(c.Stderr, "it fails\n")
		code, _ = strconv.Atoi(c.Args[1])
	case c.Args[0] == "size":
		size, _ := bufio.NewReader(c.Resize).ReadString('\n')
		_, _ = io.WriteString(c.Stdout, size)
	default:
		_, _ = io.WriteString(c.Stdout, strings.Join(c.Args, " ")+"\n")
	}
	return code
}

// exit returns the Status for an exit code.
func exit(code int) *metav1.Status {
	if code == 0 {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: fmt.Sprintf("command terminated with non-zero exit code: %d", code),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(code)}}},
	}
}

// forward echoes the data of each port.
func (k *Kubelet) forward(w http.ResponseWriter, r *http.Request) {
	connection, opened := upgrade(w, r, "portforward.k8s.io")
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	for {
		select {
		case stream := <-opened:
			if stream.Headers().Get("streamType") == "data" {
				go func() { _, _ = io.Copy(stream, stream); _ = stream.Close() }()
			} else {
				_ = stream.Close() // no error
			}
		case <-connection.CloseChan():
			return
		}
	}
}
