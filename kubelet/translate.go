package kubelet

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"golang.org/x/net/websocket"
)

// Channels of the WebSocket protocol: the first byte of a message. Over SPDY each is
// a stream.
const (
	stdinChannel byte = iota
	stdoutChannel
	stderrChannel
	errorChannel
	resizeChannel
	channels
	// closeChannel ends the channel that the next byte names.
	closeChannel byte = 255
)

const (
	v5Protocol = "v5.channel.k8s.io"
	// idleTimeout ends a session on which nothing is sent, as kubelets do.
	idleTimeout = 4 * time.Hour
	// pingPeriod keeps connections to kubelets from being taken for dead.
	pingPeriod = 30 * time.Second
	// maxStatus bounds how a command has ended, in bytes.
	maxStatus = 64 << 10
)

// session is a command whose client speaks in channels over a WebSocket connection,
// and whose kubelet in streams over SPDY.
type session struct {
	client  *Client
	request *Stream
	socket  *websocket.Conn
}

// translate serves a client that speaks v5.channel.k8s.io. As in kube-apiserver its
// connection is upgraded first, and it is told on it what goes wrong.
func (c *Client) translate(w http.ResponseWriter, r *http.Request, s *Stream) {
	server := websocket.Server{
		Handshake: func(config *websocket.Config, _ *http.Request) error {
			if !slices.Contains(config.Protocol, v5Protocol) {
				return websocket.ErrBadWebSocketProtocol
			}
			config.Protocol = []string{v5Protocol}
			return nil
		},
		Handler: func(socket *websocket.Conn) {
			socket.PayloadType = websocket.BinaryFrame
			session := &session{c, s, socket}
			session.announce()
			status, err := session.run(r)
			if err != nil {
				status = statusOf(err)
			}
			_, _ = session.writer(errorChannel).Write(status)
			_ = socket.Close() // with a message that says so
		},
	}
	server.ServeHTTP(w, r)
}

// announce sends an empty message, by which clients know that the session has begun.
func (s *session) announce() {
	first := errorChannel
	switch {
	case s.request.Streams.Stdout:
		first = stdoutChannel
	case s.request.Streams.Stderr:
		first = stderrChannel
	}
	_, _ = s.writer(first).Write(nil)
}

// run connects to the kubelet, and returns how the command has ended.
func (s *session) run(r *http.Request) ([]byte, error) {
	response, conn, err := s.client.dialSPDY(r.Context(), s.request, commandStreamProtocol)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		defer func() { _ = response.Body.Close() }()
		return nil, upgradeError(response)
	}
	kubelet, err := spdy.NewClientConnectionWithPings(conn, pingPeriod)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	forget := s.client.config.Proxy.OnStop(func() { _ = kubelet.Close() })
	defer forget()
	defer func() { _ = kubelet.Close() }()
	streams, err := s.request.Streams.open(kubelet)
	if err != nil {
		return nil, err
	}
	go func() {
		s.receive(streams)
		_ = kubelet.Close() // the client has left
	}()
	return s.send(streams)
}

// send sends the client what the command writes, and returns how it has ended.
func (s *session) send(streams []httpstream.Stream) ([]byte, error) {
	var output sync.WaitGroup
	for _, channel := range []byte{stdoutChannel, stderrChannel} {
		if stream := streams[channel]; stream != nil {
			output.Go(func() { _, _ = s.client.config.Proxy.Copy(s.writer(channel), stream, nil) })
		}
	}
	status, err := readStatus(streams[errorChannel])
	output.Wait()
	return status, err
}

// receive takes what the client sends, until it leaves. Each message goes straight to
// its stream, without being kept.
func (s *session) receive(streams []httpstream.Stream) {
	for {
		_ = s.socket.SetDeadline(time.Now().Add(idleTimeout))
		frame, err := s.socket.NewFrameReader()
		if err != nil {
			return
		}
		frame, err = s.socket.HandleFrame(frame)
		if err != nil {
			return
		}
		if frame != nil && !s.message(frame, streams) {
			return
		}
	}
}

// message passes a message on. It reports whether there can be another one.
func (s *session) message(message io.Reader, streams []httpstream.Stream) bool {
	var head [1]byte
	if n, err := message.Read(head[:]); n == 0 {
		return err == nil || err == io.EOF
	}
	channel := head[0]
	if channel == closeChannel {
		if n, _ := message.Read(head[:]); n == 1 && head[0] < channels {
			if stream := input(streams, head[0]); stream != nil {
				_ = stream.Close() // in this direction
			}
		}
		channel = channels
	}
	to := io.Discard
	if stream := input(streams, channel); stream != nil {
		to = stream
	}
	_, err := s.client.config.Proxy.Copy(to, message, nil)
	return err == nil
}

// input returns the stream of a channel that clients write to; nil if there is none.
func input(streams []httpstream.Stream, channel byte) httpstream.Stream {
	if channel != stdinChannel && channel != resizeChannel {
		return nil
	}
	return streams[channel]
}

// channelWriter writes messages of a channel.
type channelWriter struct {
	*session
	channel byte
}

func (s *session) writer(channel byte) io.Writer { return &channelWriter{s, channel} }

// Write implements io.Writer.
func (c *channelWriter) Write(p []byte) (int, error) {
	_ = c.socket.SetDeadline(time.Now().Add(idleTimeout))
	written := 0
	err := c.client.config.Proxy.WithBuffer(func(buffer []byte) error {
		buffer[0] = c.channel
		for written == 0 || written < len(p) {
			n := copy(buffer[1:], p[written:])
			if _, err := c.socket.Write(buffer[:1+n]); err != nil {
				return err
			}
			if written += n; n == 0 {
				return nil
			}
		}
		return nil
	})
	return written, err
}

// open opens the streams, by the numbers of their channels.
func (s *Streams) open(kubelet httpstream.Connection) ([]httpstream.Stream, error) {
	streams := make([]httpstream.Stream, channels)
	for _, one := range []struct {
		channel byte
		name    string
		wanted  bool
	}{
		{errorChannel, "error", true},
		{stdinChannel, "stdin", s.Stdin},
		{stdoutChannel, "stdout", s.Stdout},
		{stderrChannel, "stderr", s.Stderr && !s.TTY},
		{resizeChannel, "resize", s.TTY},
	} {
		if !one.wanted {
			continue
		}
		stream, err := kubelet.CreateStream(http.Header{"Streamtype": {one.name}})
		if err != nil {
			return nil, err
		}
		streams[one.channel] = stream
	}
	_ = streams[errorChannel].Close() // nothing is sent on it
	return streams, nil
}

// readStatus reads how a command has ended from its error stream, where a kubelet
// sends a Status, or nothing for success.
func readStatus(stream io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(stream, maxStatus))
	switch {
	case err != nil:
		return nil, err
	case len(text) == 0:
		return json.Marshal(metav1.Status{Status: metav1.StatusSuccess})
	}
	return text, nil
}

// statusOf returns the Status of an error, in JSON.
func statusOf(err error) []byte {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	text, err := json.Marshal(known.Status())
	if err != nil {
		return nil
	}
	return text
}
