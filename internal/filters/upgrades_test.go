package filters_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"mainstay.dev/mainstay/internal/filters"
)

// upgrading connects to a server with a handler behind Upgrades. It sends an upgrade request,
// immediately followed by early.
func upgrading(t *testing.T, handler http.HandlerFunc, early string) (net.Conn, *bufio.Reader) {
	t.Helper()
	server := httptest.NewServer(filters.Upgrades(slog.New(slog.DiscardHandler))(handler))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"+early); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// TestUpgraded checks that a handler that has hijacked the connection receives the data that the
// client sent before and after the hijack, although net/http's goroutine has ended. Using the
// response writer after the hijack fails without side effects.
func TestUpgraded(t *testing.T) {
	t.Parallel()
	conn, answers := upgrading(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Kept", "yes")
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		early := buffered.Reader.Buffered()
		for range 3 {
			line, err := buffered.ReadString('\n')
			if err != nil {
				t.Error(err)
				return
			}
			_, failed := w.Write(nil)
			_, _ = fmt.Fprintf(conn, "%d %v %v %s %s", early, r.Context().Err(), failed, w.Header().Get("X-Kept"), line)
		}
		if _, _, err := http.NewResponseController(w).Hijack(); err != http.ErrHijacked {
			t.Error(err)
		}
		if err := http.NewResponseController(w).Flush(); err == nil {
			t.Error("Flush after Hijack returned no error")
		}
		panic("a panic that must not terminate the server")
	}, "early\n")
	for i, line := range []string{"early\n", "late\n", "later\n"} {
		if i > 0 {
			if _, err := io.WriteString(conn, line); err != nil {
				t.Fatal(err)
			}
		}
		got, err := answers.ReadString('\n')
		if want := "<nil> http: connection has been hijacked yes " + line; err != nil || len(got) < 2 || got[2:] != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
		t.Errorf("read the rest: %q, error %v; want nothing", rest, err)
	}
}

// TestNotUpgraded checks that if the handler does not hijack the connection, the response is sent
// as usual and the connection is reused. A panic of the handler reaches net/http.
func TestNotUpgraded(t *testing.T) {
	t.Parallel()
	conn, answers := upgrading(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "no")
	}, "")
	for _, next := range []string{"/", "/panic"} {
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "no" {
			t.Fatalf("response body %q, error %v; want no", text, err)
		}
		if _, err := io.WriteString(conn, "GET "+next+" HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if answer, err := http.ReadResponse(answers, nil); err == nil {
		t.Fatal(answer.Status)
	}
}

// TestUpgradeDisconnect checks that the context of a handler that has not hijacked the connection ends
// when the client disconnects.
func TestUpgradeDisconnect(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	conn, _ := upgrading(t, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	}, "")
	<-begun
	_ = conn.Close()
	<-ended
}
