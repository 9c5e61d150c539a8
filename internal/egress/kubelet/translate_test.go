package kubelet_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/feature"
)

// beginCommand starts the command cat over a WebSocket. It returns the client's connection after the server has
// announced the session.
func beginCommand(t *testing.T, f *fixture) (net.Conn, *bufio.Reader) {
	t.Helper()
	query := url.Values{"command": {"cat"}, "input": {"1"}, "output": {"1"}}
	front := httptest.NewServer(f.client.Stream(&kubelet.Stream{
		Kubelet: f.at, Path: "/exec/a/p/c", Query: query, Streams: &kubelet.Streams{Stdin: true, Stdout: true},
	}, writeError))
	t.Cleanup(front.Close)
	conn, answers, answer := openSocket(t, front, "v5.channel.k8s.io")
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatal(answer)
	}
	expect(t, answers, "\x82\x01\x01")
	return conn, answers
}

// openSocket requests a WebSocket connection from a server. It offers no protocol if protocol is
// "".
func openSocket(t *testing.T, server *httptest.Server, protocol string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	request := "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	if protocol != "" {
		request += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	_, _ = io.WriteString(conn, request+"\r\n")
	answers := bufio.NewReader(conn)
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn, answers, answer
}

func expect(t *testing.T, from io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v, want %q", got, err, want)
	}
}

// frame returns a client frame with a zero mask.
func frame(head byte, text string) string {
	return string([]byte{head, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text
}

// TestFragments checks that a fragmented message with an interleaved ping reaches its channel, and
// that the channel can be closed.
func TestFragments(t *testing.T) {
	t.Parallel()
	conn, answers := beginCommand(t, newFixture(t))
	_, _ = io.WriteString(conn, frame(0x02, "")+frame(0x00, "\x00one")+frame(0x89, "?")+frame(0x80, " two"))
	got := ""
	for !strings.Contains(got, "\x8a\x01?") || !strings.Contains(got, "one") || !strings.Contains(got, "two") {
		part := make([]byte, 64)
		n, err := answers.Read(part)
		if err != nil {
			t.Fatalf("read the response after %q: %v", got, err)
		}
		got += string(part[:n])
	}
	_, _ = io.WriteString(conn, frame(0x82, "\xff\x00"))
	if rest, err := io.ReadAll(answers); err != nil || !strings.Contains(string(rest), `"status":"Success"`) || !strings.HasSuffix(string(rest), "\x88\x02\x03\xe8") {
		t.Errorf("response after the end of the input: %q, error %v", rest, err)
	}
}

// TestBadFrames checks that protocol violations of the client end the session.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, text := range map[string]string{
		"not masked": "\x82\x02\x00a", "unknown kind": frame(0x83, "\x00a"), "fragmented ping": frame(0x09, "a"),
		"large ping": "\x89\xfe\x01\x00\x00\x00\x00\x00", "negative length": "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "close": frame(0x88, "\x03\xe8"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, answers := beginCommand(t, f)
			_, _ = io.WriteString(conn, text)
			if _, err := io.ReadAll(answers); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Error(err)
			}
		})
	}
}

// TestLongStatus checks that a status which does not fit into one message is truncated, and that the message
// and the close frame remain valid.
func TestLongStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.StatusMessage = strings.Repeat("x", 1<<17)
	f.Run = func(*kubelettest.Command) int { return 1 }
	_, answers := beginCommand(t, f)
	expect(t, answers, "\x82\x7e\xff\xff\x03"+`{"metadata":{},"status":"Failure","message":"xxx`)
	rest, err := io.ReadAll(answers)
	if text, closed := strings.CutSuffix(string(rest), "x\x88\x02\x03\xe8"); err != nil || !closed || strings.Trim(text, "x") != "" {
		t.Errorf("%d bytes after the beginning of the status, error %v, %q; want a truncated message and a close frame", len(rest), err, text[max(0, len(text)-20):])
	}
}

// TestKubeletGone checks that the client receives an error if the kubelet closes the connection
// before the command has ended.
func TestKubeletGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dialed := make(chan net.Conn, 1)
	f.client = kubelet.New(kubelet.Config{Gates: feature.Defaults(), Proxy: &proxy.Proxy{}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		dialed <- conn
		return conn, err
	}})
	f.Run = func(c *kubelettest.Command) int {
		_, _ = io.WriteString(c.Stdout, "begun")
		_, _ = io.Copy(io.Discard, c.Stdin)
		return 0
	}
	_, answers := beginCommand(t, f)
	expect(t, answers, "\x82\x06\x01begun")
	_ = (<-dialed).Close()
	if rest, err := io.ReadAll(answers); err != nil || !strings.Contains(string(rest), "the connection to the kubelet has ended") {
		t.Errorf("response after the end of the connection: %q, error %v", rest, err)
	}
}

// TestKubeletGoneEarly checks that the client receives the output and an error if the kubelet
// disconnects after it has sent output but before it has accepted the last stream.
func TestKubeletGoneEarly(t *testing.T) {
	t.Parallel()
	early := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"+
			"\x00\x00\x00\x05\x00\x00\x00\x05begun") // data of the third stream, which is stdout
		_ = conn.(*tls.Conn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn) // the frames that open streams
		_ = conn.Close()
	}))
	t.Cleanup(early.Close)
	f := newFixture(t)
	f.client = kubelet.New(kubelet.Config{Gates: feature.Defaults(), Proxy: &proxy.Proxy{}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, early.Listener.Addr().String())
	}})
	_, answers := beginCommand(t, f)
	if rest, err := io.ReadAll(answers); err != nil || !strings.Contains(string(rest), "begun") || !strings.Contains(string(rest), "the connection to the kubelet has ended") {
		t.Errorf("response of a connection that ends early: %q, error %v", rest, err)
	}
}

// TestLogMessages checks logs over WebSocket connections with each protocol.
func TestLogMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Log = func(*http.Request) io.Reader { return strings.NewReader("a log\n") }
	front := httptest.NewServer(f.client.Logs(&kubelet.Log{Kubelet: f.at, Namespace: "a", Pod: "p", Container: "c"}, writeError))
	t.Cleanup(front.Close)
	for protocol, want := range map[string]struct {
		code     int
		protocol string
		frames   string
	}{
		"":                             {101, "", "\x82\x00\x82\x06a log\n\x88\x02\x03\xe8"},
		"binary.k8s.io":                {101, "binary.k8s.io", "\x82\x00\x82\x06a log\n\x88\x02\x03\xe8"},
		"x, base64.binary.k8s.io":      {101, "base64.binary.k8s.io", "\x81\x00\x81\x08YSBsb2cK\x88\x02\x03\xe8"},
		"base64.channel.k8s.io, other": {403, "", ""},
	} {
		_, answers, answer := openSocket(t, front, protocol)
		if answer.StatusCode != want.code || answer.Header.Get("Sec-Websocket-Protocol") != want.protocol {
			t.Errorf("protocol %q: response %v, want code %d with the protocol %q", protocol, answer, want.code, want.protocol)
		}
		if want.code == http.StatusSwitchingProtocols {
			if got, err := io.ReadAll(answers); err != nil || string(got) != want.frames {
				t.Errorf("%q: %q, %v; want %q", protocol, got, err, want.frames)
			}
		}
	}
}

// TestLogClientLeaves checks that the log request to the kubelet is canceled when the WebSocket
// client disconnects.
func TestLogClientLeaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	left := make(chan struct{})
	f.Log = func(r *http.Request) io.Reader {
		lines, w := io.Pipe()
		go func() {
			_, _ = io.WriteString(w, "first\n")
			<-r.Context().Done()
			_ = w.Close()
			close(left)
		}()
		return lines
	}
	front := httptest.NewServer(f.client.Logs(&kubelet.Log{Kubelet: f.at, Namespace: "a", Pod: "p", Container: "c", Follow: true, Query: url.Values{"follow": {"true"}}}, writeError))
	t.Cleanup(front.Close)
	conn, answers, _ := openSocket(t, front, "binary.k8s.io")
	expect(t, answers, "\x82\x00\x82\x06first\n")
	_ = conn.Close()
	<-left
}
