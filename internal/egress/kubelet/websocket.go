package kubelet

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/egress/proxy"
)

// Kinds of WebSocket frames (RFC 6455, section 5.2). closeFrame and higher values are control frames.
const (
	continuationFrame byte = 0
	textFrame         byte = 1
	binaryFrame       byte = 2
	closeFrame        byte = 8
	wsPingFrame       byte = 9
	wsPongFrame       byte = 10

	finalBit         = 0x80
	maskBit          = 0x80
	maxControl       = 125       // maximum payload of a control frame, in bytes
	size16           = 126       // the length is in the next 2 bytes
	size64           = 127       // the length is in the next 8 bytes
	maxPayload       = 1<<16 - 1 // maximum payload of a sent frame, in bytes
	socketHeaderSize = 4         // maximum header size of sent frames, in bytes
	acceptMagic      = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// webSocket is the server's end of a WebSocket connection. It has no buffers of its own, but reads into the
// caller's buffer. One goroutine may read; several may write.
type webSocket struct {
	conn  net.Conn
	proxy *proxy.Proxy
	idle  time.Duration // idle timeout; 0 disables it

	writing  sync.Mutex
	deadline struct {
		sync.Mutex
		latest time.Time // the deadline that endBy has set; zero if there is none
	}

	// State of the current frame:
	remaining     int64 // unread bytes
	startsMessage bool  // the frame starts a message
	mask          [4]byte
	maskOffset    int // index of the next byte of mask
	header        [8]byte
}

// errClosed is the error of reads after the client has sent a close frame.
var errClosed = fmt.Errorf("the client has closed the WebSocket: %w", io.EOF)

// acceptWebSocket upgrades the connection of a request to a WebSocket. protocol is one of the
// protocols offered by the client, or "". If the request cannot be upgraded, acceptWebSocket writes
// an error response and returns nil.
func acceptWebSocket(w http.ResponseWriter, r *http.Request, p *proxy.Proxy, protocol string) *webSocket {
	key := r.Header.Get("Sec-Websocket-Key")
	switch {
	case r.Method != http.MethodGet || key == "" || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		http.Error(w, "bad WebSocket handshake", http.StatusBadRequest)
		return nil
	case r.Header.Get("Sec-Websocket-Version") != "13":
		w.Header().Set("Sec-WebSocket-Version", "13")
		http.Error(w, "missing or bad WebSocket Version", http.StatusBadRequest)
		return nil
	}
	sum := sha1.Sum([]byte(key + acceptMagic))
	header := http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"},
		"Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(sum[:])},
	}
	if protocol != "" {
		header.Set("Sec-Websocket-Protocol", protocol)
	}
	conn, err := proxy.AcceptUpgrade(w, r, header)
	if err != nil {
		return nil // the client has disconnected
	}
	return &webSocket{conn: conn, proxy: p}
}

// nextFrame reads the header of the next data frame and handles control frames. The previous frame
// must be read completely.
func (s *webSocket) nextFrame() error {
	for {
		kind, err := s.readHeader()
		if err != nil {
			return err
		}
		if kind < closeFrame {
			s.startsMessage = kind != continuationFrame
			return nil
		}
		if err := s.control(kind); err != nil {
			return err
		}
	}
}

// readHeader reads a frame header.
func (s *webSocket) readHeader() (kind byte, err error) {
	s.extendDeadline()
	if _, err := io.ReadFull(s.conn, s.header[:2]); err != nil {
		return 0, err
	}
	kind, masked, size := s.header[0]&^finalBit, s.header[1]&maskBit != 0, s.header[1]&^maskBit
	switch {
	case !masked:
		return 0, errors.New("WebSocket frame of the client is not masked")
	case kind > binaryFrame && kind < closeFrame || kind > wsPongFrame:
		return 0, fmt.Errorf("WebSocket frame of the client has the unknown opcode %#x", kind)
	case kind >= closeFrame && (size > maxControl || s.header[0]&finalBit == 0):
		return 0, errors.New("WebSocket control frame of the client is too large or fragmented")
	}
	if s.remaining, err = s.readSize(size); err != nil {
		return 0, err
	}
	s.maskOffset = 0
	_, err = io.ReadFull(s.conn, s.mask[:])
	return kind, err
}

func (s *webSocket) readSize(short byte) (int64, error) {
	switch short {
	case size16:
		_, err := io.ReadFull(s.conn, s.header[:2])
		return int64(binary.BigEndian.Uint16(s.header[:])), err
	case size64:
		_, err := io.ReadFull(s.conn, s.header[:8])
		size := int64(binary.BigEndian.Uint64(s.header[:]))
		if size < 0 {
			return 0, errors.New("WebSocket frame of the client has an invalid length")
		}
		return size, err
	}
	return int64(short), nil
}

// control handles a control frame.
func (s *webSocket) control(kind byte) error {
	var frame [socketHeaderSize + maxControl]byte
	text := frame[socketHeaderSize : socketHeaderSize+s.remaining]
	for read := 0; s.remaining > 0; {
		n, err := s.readData(text[read:])
		if err != nil {
			return err
		}
		read += n
	}
	switch kind {
	case wsPingFrame:
		return s.send(wsPongFrame, frame[:socketHeaderSize+len(text)])
	case closeFrame:
		_ = s.send(closeFrame, frame[:socketHeaderSize+min(len(text), 2)]) // echo the status code of the client
		return errClosed
	}
	return nil
}

// readData reads data of the current frame.
func (s *webSocket) readData(p []byte) (int, error) {
	n, err := s.conn.Read(p[:min(int64(len(p)), s.remaining)])
	for i := range p[:n] {
		p[i] ^= s.mask[s.maskOffset&3]
		s.maskOffset++
	}
	s.remaining -= int64(n)
	if err == io.EOF && s.remaining > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Read implements io.Reader. It concatenates the data of all messages.
func (s *webSocket) Read(p []byte) (int, error) {
	for s.remaining == 0 {
		if err := s.nextFrame(); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.EOF
			}
			return 0, err
		}
	}
	return s.readData(p)
}

// Write implements io.Writer. It sends binary messages.
func (s *webSocket) Write(p []byte) (int, error) {
	written := 0
	err := s.proxy.WithBuffer(func(buffer []byte) error {
		for written < len(p) {
			n := copy(buffer[socketHeaderSize:], p[written:])
			if err := s.send(binaryFrame, buffer[:socketHeaderSize+n]); err != nil {
				return err
			}
			written += n
		}
		return nil
	})
	return written, err
}

// send sends buffer as a frame. The first socketHeaderSize bytes are reserved for the frame header. The payload
// must not exceed maxPayload bytes.
func (s *webSocket) send(kind byte, buffer []byte) error {
	size, begin := len(buffer)-socketHeaderSize, 0
	if size < size16 {
		begin = socketHeaderSize - 2
		buffer[begin+1] = byte(size)
	} else {
		buffer[1] = size16
		binary.BigEndian.PutUint16(buffer[2:], uint16(size))
	}
	buffer[begin] = finalBit | kind
	s.writing.Lock()
	defer s.writing.Unlock()
	s.extendDeadline()
	_, err := s.conn.Write(buffer[begin:])
	return err
}

// extendDeadline starts the idle timeout again.
func (s *webSocket) extendDeadline() {
	if s.idle == 0 {
		return
	}
	s.deadline.Lock()
	defer s.deadline.Unlock()
	at := time.Now().Add(s.idle)
	if latest := s.deadline.latest; !latest.IsZero() && latest.Before(at) {
		at = latest
	}
	_ = s.conn.SetDeadline(at)
}

// endBy makes all reads and writes fail at a time, also the blocked ones.
func (s *webSocket) endBy(at time.Time) {
	s.deadline.Lock()
	defer s.deadline.Unlock()
	s.deadline.latest = at
	_ = s.conn.SetDeadline(at)
}

// closeTimeout is the timeout for sending a close frame.
const closeTimeout = 5 * time.Second

// Close implements io.Closer. It sends a close frame and closes the connection.
func (s *webSocket) Close() error {
	const normal = 1000
	s.endBy(time.Now().Add(closeTimeout))
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.conn.Write([]byte{finalBit | closeFrame, 2, normal >> 8, normal & 0xff})
	return s.conn.Close()
}
