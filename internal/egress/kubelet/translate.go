package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Channels of the WebSocket protocol. The first byte of a message is the number of its channel. In SPDY, each
// channel is a separate stream.
const (
	stdinChannel byte = iota
	stdoutChannel
	stderrChannel
	errorChannel
	resizeChannel
	channels
	// closeChannel closes the channel whose number is in the next byte.
	closeChannel byte = 255
)

const (
	v5Protocol = "v5.channel.k8s.io"
	// idleTimeout is the maximum time without data. Kubelets have the same timeout.
	idleTimeout = 4 * time.Hour
	// pingPeriod is the interval of SPDY pings, which prevent an idle timeout of the connection to the kubelet.
	pingPeriod = 30 * time.Second
	// replyTimeout is the timeout for the kubelet to accept the streams.
	replyTimeout = 30 * time.Second
	// maxStatus is the maximum size of a command's status, in bytes. The status and the number of its channel
	// must fit into one message. The rest of a longer status is discarded.
	maxStatus = maxPayload - 1
)

// session translates between a client that uses channels over a WebSocket and a kubelet that uses
// streams over SPDY. Frames are forwarded without an intermediate buffer. One goroutine reads from
// the kubelet, and one reads from the client.
type session struct {
	client  *Client
	stream  *Stream
	socket  *webSocket
	kubelet *spdyConn
	// streams contains the SPDY stream IDs by channel; 0 if the channel has no stream.
	streams [channels]uint32
	// accepted and ended report whether the kubelet has accepted a stream, and whether it has ended its side of
	// the stream. Both are true for channels without a stream.
	accepted, ended [channels]bool
	// dataReceived reports whether the kubelet has sent data.
	dataReceived bool
	// status is the JSON-encoded Status of the command, sent by the kubelet or set from an error.
	status []byte
}

// translate serves a client that uses the protocol v5.channel.k8s.io. As in kube-apiserver, the connection is
// upgraded first, and errors are sent as messages.
func (c *Client) translate(w http.ResponseWriter, r *http.Request, s *Stream) {
	socket := acceptWebSocket(w, r, c.config.Proxy, v5Protocol)
	if socket == nil {
		return
	}
	socket.idle = idleTimeout
	forget := c.config.Proxy.OnStop(func() { socket.endBy(time.Now().Add(closeTimeout)) }) // the client may not read
	defer forget()
	session := &session{client: c, stream: s, socket: socket}
	session.announce()
	if err := session.connect(r); err != nil {
		session.status = statusOf(err)
	} else if err := session.serve(); err != nil {
		session.status = statusOf(err)
	}
	session.sendMessage(errorChannel, session.status)
	_ = socket.Close()
}

// announce sends an empty message. Clients wait for it to detect the start of the session.
func (s *session) announce() {
	first := errorChannel
	switch {
	case s.stream.Streams.Stdout:
		first = stdoutChannel
	case s.stream.Streams.Stderr:
		first = stderrChannel
	}
	s.sendMessage(first, nil)
}

// sendMessage sends at most maxStatus bytes of text to the client. It ignores errors, because the reader
// detects a disconnected client.
func (s *session) sendMessage(channel byte, text []byte) {
	message := append(make([]byte, socketHeaderSize, socketHeaderSize+1+len(text)), channel)
	_ = s.socket.send(binaryFrame, append(message, text[:min(len(text), maxStatus)]...))
}

func (s *session) connect(r *http.Request) error {
	response, conn, err := s.client.dialSPDY(r.Context(), s.stream, commandStreamProtocol)
	if err != nil {
		return err
	}
	if conn == nil {
		defer func() { _ = response.Body.Close() }()
		return upgradeError(response)
	}
	s.kubelet = &spdyConn{ReadWriteCloser: s.client.config.Proxy.Throttle(conn)}
	return nil
}

// serve runs the session until the command or the connection to the kubelet has ended. If it returns no error,
// it has set s.status.
func (s *session) serve() error {
	end := func() { _ = s.kubelet.Close() }
	defer end()
	forget := s.client.config.Proxy.OnStop(end)
	defer forget()
	if err := s.openStreams(); err != nil {
		return err
	}
	if err := s.awaitAccepted(end); err != nil {
		return err
	}
	_ = s.kubelet.closeStream(s.streams[errorChannel]) // the client's side sends no data on the error stream
	go func() {
		s.receive()
		end() // the client has disconnected
	}()
	stop := s.keepAlive()
	err := s.deliver()
	stop()
	end()
	return err
}

// openStreams opens the streams of the command.
func (s *session) openStreams() error {
	wanted := s.stream.Streams
	for _, one := range []struct {
		channel byte
		name    string
		wanted  bool
	}{
		{errorChannel, "error", true},
		{stdinChannel, "stdin", wanted.Stdin},
		{stdoutChannel, "stdout", wanted.Stdout},
		{stderrChannel, "stderr", wanted.Stderr && !wanted.TTY},
		{resizeChannel, "resize", wanted.TTY},
	} {
		if !one.wanted {
			s.accepted[one.channel], s.ended[one.channel] = true, true
			continue
		}
		var err error
		if s.streams[one.channel], err = s.kubelet.openStream("streamtype", one.name); err != nil {
			return err
		}
	}
	return nil
}

// awaitAccepted waits until the kubelet has accepted all streams, because data that is sent earlier
// is lost.
func (s *session) awaitAccepted(end func()) error {
	timer := time.AfterFunc(replyTimeout, end)
	defer timer.Stop()
	for s.accepted != allChannels() {
		switch err := s.handleFrame(); {
		case err != nil && s.dataReceived: // a kubelet may start the command before it accepts the last stream
			return connectionEnded(err)
		case err != nil:
			return fmt.Errorf("the kubelet did not accept all streams: %w", err)
		}
	}
	return nil
}

// connectionEnded returns the error of a session if the kubelet's connection ended before the kubelet reported
// the end of the command.
func connectionEnded(err error) error {
	return fmt.Errorf("the connection to the kubelet has ended: %w", err)
}

func allChannels() [channels]bool { return [channels]bool{true, true, true, true, true} }

// deliver sends the kubelet's data to the client until the command has ended.
func (s *session) deliver() error {
	for !s.ended[errorChannel] || !s.ended[stdoutChannel] || !s.ended[stderrChannel] {
		err := s.handleFrame()
		switch {
		case err != nil && len(s.status) > 0, errors.Is(err, errGoAway):
			return s.setSuccess() // some kubelets close the connection after success
		case err != nil:
			return connectionEnded(err)
		}
	}
	return s.setSuccess()
}

// setSuccess sets the status to success, unless the kubelet has sent a status.
func (s *session) setSuccess() (err error) {
	if len(s.status) == 0 {
		s.status, err = json.Marshal(metav1.Status{Status: metav1.StatusSuccess})
	}
	return err
}

// errGoAway reports that the kubelet sent a GOAWAY frame, which ends the session.
var errGoAway = errors.New("the kubelet sent GOAWAY")

// handleFrame reads and handles one frame from the kubelet.
func (s *session) handleFrame() error {
	frame, err := s.kubelet.nextFrame()
	if err != nil {
		return err
	}
	switch frame.kind {
	case 0:
		return s.handleData(frame)
	case synReplyFrame, rstStreamFrame:
		stream, err := s.kubelet.readID(frame)
		if channel, ok := s.channelOf(stream); ok {
			s.accepted[channel] = true
			s.ended[channel] = s.ended[channel] || frame.kind == rstStreamFrame || frame.flags&finFlag != 0
		}
		return err
	case pingFrame:
		id, err := s.kubelet.readID(frame)
		if err == nil && id%2 == 0 { // pings with odd IDs are replies to the pings of this side
			err = s.kubelet.sendPing(id)
		}
		return err
	case goAwayFrame:
		return errGoAway
	}
	return s.kubelet.discard(frame.size)
}

func (s *session) channelOf(stream uint32) (byte, bool) {
	for channel, number := range s.streams {
		if number == stream && stream != 0 {
			return byte(channel), true
		}
	}
	return 0, false
}

// handleData forwards the data of stdout and stderr, and stores the data of the error stream.
func (s *session) handleData(frame spdyFrame) error {
	channel, ok := s.channelOf(frame.stream)
	s.dataReceived = s.dataReceived || ok
	var err error
	switch {
	case ok && channel == errorChannel:
		err = s.readStatus(frame.size)
	case ok && (channel == stdoutChannel || channel == stderrChannel):
		err = s.output(channel, frame.size)
	default:
		err = s.kubelet.discard(frame.size)
	}
	if ok && frame.flags&finFlag != 0 {
		s.ended[channel] = true
	}
	return err
}

// output sends output of the command to the client.
func (s *session) output(channel byte, size int) error {
	return s.client.config.Proxy.WithBuffer(func(buffer []byte) error {
		const head = socketHeaderSize + 1
		buffer[socketHeaderSize] = channel
		for size > 0 {
			n, err := s.kubelet.Read(buffer[head:min(len(buffer), head+size)])
			size -= n
			if n > 0 {
				if err := s.socket.send(binaryFrame, buffer[:head+n]); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// readStatus reads data of the error stream. Kubelets send a Status there; some send nothing after success.
func (s *session) readStatus(size int) error {
	text := make([]byte, min(size, maxStatus-len(s.status)))
	if _, err := io.ReadFull(s.kubelet, text); err != nil {
		return err
	}
	s.status = append(s.status, text...)
	return s.kubelet.discard(size - len(text))
}

// keepAlive pings the kubelet periodically until stop is called.
func (s *session) keepAlive() (stop func() bool) {
	var timer *time.Timer
	s.kubelet.writing.Lock() // delay the first ping until timer is set
	defer s.kubelet.writing.Unlock()
	timer = time.AfterFunc(pingPeriod, func() {
		if s.kubelet.ping() == nil {
			timer.Reset(pingPeriod)
		}
	})
	return timer.Stop
}

// receive processes the client's data until it disconnects.
func (s *session) receive() {
	var stream uint32 // receives the data of the message; 0 drops the data
	named := false
	for {
		err := s.socket.nextFrame()
		if s.socket.startsMessage {
			named = false
		}
		if err == nil && !named && s.socket.remaining > 0 {
			stream, err = s.destination()
			named = true
		}
		for err == nil && s.socket.remaining > 0 {
			err = s.input(stream)
		}
		if err != nil {
			return
		}
	}
}

// destination reads the channel number of a message and returns the stream for its data. It returns
// 0 for a message that closes a channel.
func (s *session) destination() (uint32, error) {
	channel, err := s.readChannel()
	if channel != closeChannel || err != nil {
		return s.inputOf(channel), err
	}
	if s.socket.remaining == 0 {
		return 0, nil
	}
	if channel, err = s.readChannel(); err != nil {
		return 0, err
	}
	if stream := s.inputOf(channel); stream != 0 {
		return 0, s.kubelet.closeStream(stream)
	}
	return 0, nil
}

func (s *session) readChannel() (byte, error) {
	var channel [1]byte
	for {
		if n, err := s.socket.readData(channel[:]); n > 0 || err != nil {
			return channel[0], err
		}
	}
}

// inputOf returns the stream of an input channel, or 0 if the channel has no stream.
func (s *session) inputOf(channel byte) uint32 {
	if channel != stdinChannel && channel != resizeChannel {
		return 0
	}
	return s.streams[channel]
}

// input forwards the available data of the client to a stream, or drops the data if stream is 0.
func (s *session) input(stream uint32) error {
	return s.client.config.Proxy.WithBuffer(func(buffer []byte) error {
		n, err := s.socket.readData(buffer[frameHeaderSize:])
		if n > 0 && stream != 0 {
			if err := s.kubelet.send(stream, buffer[:frameHeaderSize+n]); err != nil {
				return err
			}
		}
		return err
	})
}

// statusOf returns the JSON-encoded Status of an error.
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
