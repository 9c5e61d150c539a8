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

// Kinds of WebSocket frames (RFC 6455, section 5.2). closeFrame and later ones are control frames.
const (
	continuationFrame byte = 0
	textFrame         byte = 1
	binaryFrame       byte = 2
	closeFrame        byte = 8
	wsPingFrame       byte = 9
	wsPongFrame       byte = 10

	finalBit    = 0x80
	maskBit     = 0x80
	maxControl  = 125 // bytes of a control frame
	size16      = 126 // the length is in the next 2 bytes
	size64      = 127 // or in the next 8
	socketHead  = 4   // bytes of the longest head of a frame that is sent
	acceptMagic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// socket is the server's end of a WebSocket connection. It has no buffers: data is read into the
// caller's buffer, and frame headers into the socket. One goroutine reads; several may write.
type socket struct {
	conn  net.Conn
	proxy *proxy.Proxy
	idle  time.Duration // after which the connection ends; 0: it does not

	writing sync.Mutex

	// Of the frame that is read:
	left    int64 // bytes that are not read yet
	started bool  // it begins a message
	mask    [4]byte
	at      int // in mask
	head    [8]byte
}

// errClosed is the error of reads after the client's close frame.
var errClosed = fmt.Errorf("the client has closed the WebSocket: %w", io.EOF)

// acceptSocket upgrades the connection of a request to a WebSocket. protocol is one of the
// protocols offered by the client, or "". If the request cannot be upgraded, acceptSocket writes an
// error response and returns nil.
func acceptSocket(w http.ResponseWriter, r *http.Request, p *proxy.Proxy, protocol string) *socket {
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
	conn, err := proxy.Switch(w, r, header)
	if err != nil {
		return nil // the client has disconnected
	}
	return &socket{conn: conn, proxy: p}
}

// next reads the header of the next data frame, and handles control frames. The previous frame must
// be read completely.
func (s *socket) next() error {
	for {
		kind, err := s.readHead()
		if err != nil {
			return err
		}
		if kind < closeFrame {
			s.started = kind != continuationFrame
			return nil
		}
		if err := s.control(kind); err != nil {
			return err
		}
	}
}

// readHead reads the head of a frame.
func (s *socket) readHead() (kind byte, err error) {
	if s.idle > 0 {
		_ = s.conn.SetDeadline(time.Now().Add(s.idle))
	}
	if _, err := io.ReadFull(s.conn, s.head[:2]); err != nil {
		return 0, err
	}
	kind, masked, size := s.head[0]&^finalBit, s.head[1]&maskBit != 0, s.head[1]&^maskBit
	switch {
	case !masked:
		return 0, errors.New("a client's frame is not masked")
	case kind > binaryFrame && kind < closeFrame || kind > wsPongFrame:
		return 0, fmt.Errorf("a client's frame is of the unknown kind %#x", kind)
	case kind >= closeFrame && (size > maxControl || s.head[0]&finalBit == 0):
		return 0, errors.New("a client's control frame is not a small one")
	}
	if s.left, err = s.readSize(size); err != nil {
		return 0, err
	}
	s.at = 0
	_, err = io.ReadFull(s.conn, s.mask[:])
	return kind, err
}

func (s *socket) readSize(short byte) (int64, error) {
	switch short {
	case size16:
		_, err := io.ReadFull(s.conn, s.head[:2])
		return int64(binary.BigEndian.Uint16(s.head[:])), err
	case size64:
		_, err := io.ReadFull(s.conn, s.head[:8])
		size := int64(binary.BigEndian.Uint64(s.head[:]))
		if size < 0 {
			return 0, errors.New("a client's frame is larger than frames can be")
		}
		return size, err
	}
	return int64(short), nil
}

// control handles a control frame.
func (s *socket) control(kind byte) error {
	var frame [socketHead + maxControl]byte
	text := frame[socketHead : socketHead+s.left]
	for read := 0; s.left > 0; {
		n, err := s.readData(text[read:])
		if err != nil {
			return err
		}
		read += n
	}
	switch kind {
	case wsPingFrame:
		return s.send(wsPongFrame, frame[:socketHead+len(text)])
	case closeFrame:
		_ = s.send(closeFrame, frame[:socketHead+min(len(text), 2)]) // with the client's reason
		return errClosed
	}
	return nil
}

// readData reads of the data of the frame.
func (s *socket) readData(p []byte) (int, error) {
	n, err := s.conn.Read(p[:min(int64(len(p)), s.left)])
	for i := range p[:n] {
		p[i] ^= s.mask[s.at&3]
		s.at++
	}
	s.left -= int64(n)
	if err == io.EOF && s.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Read implements io.Reader. It reads the data of all messages.
func (s *socket) Read(p []byte) (int, error) {
	for s.left == 0 {
		if err := s.next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.EOF
			}
			return 0, err
		}
	}
	return s.readData(p)
}

// Write implements io.Writer. It sends messages of bytes.
func (s *socket) Write(p []byte) (int, error) {
	written := 0
	err := s.proxy.WithBuffer(func(buffer []byte) error {
		for written < len(p) {
			n := copy(buffer[socketHead:], p[written:])
			if err := s.send(binaryFrame, buffer[:socketHead+n]); err != nil {
				return err
			}
			written += n
		}
		return nil
	})
	return written, err
}

// send sends a frame: the content of the buffer after the space for the frame header. The maximum
// size is 64 KiB.
func (s *socket) send(kind byte, buffer []byte) error {
	size, begin := len(buffer)-socketHead, 0
	if size < size16 {
		begin = socketHead - 2
		buffer[begin+1] = byte(size)
	} else {
		buffer[1] = size16
		binary.BigEndian.PutUint16(buffer[2:], uint16(size))
	}
	buffer[begin] = finalBit | kind
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.idle > 0 {
		_ = s.conn.SetDeadline(time.Now().Add(s.idle))
	}
	_, err := s.conn.Write(buffer[begin:])
	return err
}

// closeTimeout bounds the sending of the close frame.
const closeTimeout = 5 * time.Second

// Close implements io.Closer. It sends a close frame.
func (s *socket) Close() error {
	const normal = 1000
	_ = s.conn.SetWriteDeadline(time.Now().Add(closeTimeout)) // of a write that waits, too
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.conn.Write([]byte{finalBit | closeFrame, 2, normal >> 8, normal & 0xff})
	return s.conn.Close()
}
