package kubelet

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Constants of SPDY/3.1 frames.
const (
	// frameHeaderSize is the size of a frame header, in bytes. The header of a control frame starts with the
	// version and type, and the header of a data frame starts with the stream ID.
	frameHeaderSize = 8
	// controlBit marks a control frame. It is set in the first 4 bytes of the header, which also contain
	// spdyVersion.
	controlBit  = 1 << 31
	spdyVersion = 3 << 16
	// finFlag marks the last frame that the sender sends on a stream.
	finFlag = 1
)

// Types of control frames.
const (
	synStreamFrame = 1
	synReplyFrame  = 2
	rstStreamFrame = 3
	pingFrame      = 6
	goAwayFrame    = 7
)

// dictionarySum is the Adler-32 checksum of the compression dictionary for SPDY/3 headers.
const dictionarySum = 0xe3c6a7c2

// spdyFrame is a frame header. The payload follows on the connection.
type spdyFrame struct {
	kind   uint16 // type of a control frame; 0 for a data frame
	stream uint32 // stream ID of a data frame
	flags  byte
	size   int
}

// spdyConn is the client's end of a SPDY/3.1 connection. It sends headers uncompressed and ignores received
// headers. Otherwise, a session would need compressors, which use almost a megabyte each. One goroutine may
// read frames; several may write.
type spdyConn struct {
	io.ReadWriteCloser

	writing     sync.Mutex
	streamCount uint32 // number of opened streams
	pingCount   uint32
	header      [frameHeaderSize]byte // header of the frame that is being read
}

// openStream opens the next stream with one header and returns its ID.
func (c *spdyConn) openStream(name, value string) (uint32, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	id := 2*c.streamCount + 1
	frame := make([]byte, frameHeaderSize, 128)
	frame = binary.BigEndian.AppendUint32(frame, id)
	frame = append(frame, 0, 0, 0, 0, 0, 0) // no associated stream, priority 0
	if c.streamCount == 0 {
		frame = append(frame, 0x78, 0x20) // zlib header, with a preset dictionary
		frame = binary.BigEndian.AppendUint32(frame, dictionarySum)
	}
	frame = appendStored(frame, appendHeader(nil, name, value))
	frame = appendStored(frame, nil) // an empty block flushes the peer's decoder
	putControl(frame, synStreamFrame, len(frame)-frameHeaderSize)
	c.streamCount++
	_, err := c.Write(frame)
	return id, err
}

// appendHeader appends a SPDY header block that contains one header.
func appendHeader(dst []byte, name, value string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 1)
	for _, text := range []string{name, value} {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
		dst = append(dst, text...)
	}
	return dst
}

// appendStored appends p as an uncompressed DEFLATE block (RFC 1951, section 3.2.4).
func appendStored(dst, p []byte) []byte {
	size := uint16(len(p))
	dst = append(dst, 0)
	dst = binary.LittleEndian.AppendUint16(dst, size)
	dst = binary.LittleEndian.AppendUint16(dst, ^size)
	return append(dst, p...)
}

func putControl(frame []byte, kind uint32, size int) {
	binary.BigEndian.PutUint32(frame, controlBit|spdyVersion|kind)
	binary.BigEndian.PutUint32(frame[4:], uint32(size))
}

// send sends buffer as a data frame. The first frameHeaderSize bytes are reserved for the frame
// header.
func (c *spdyConn) send(stream uint32, buffer []byte) error {
	binary.BigEndian.PutUint32(buffer, stream)
	binary.BigEndian.PutUint32(buffer[4:], uint32(len(buffer)-frameHeaderSize))
	return c.write(buffer)
}

// closeStream closes the client's direction of a stream.
func (c *spdyConn) closeStream(stream uint32) error {
	var frame [frameHeaderSize]byte
	binary.BigEndian.PutUint32(frame[:], stream)
	frame[4] = finFlag
	return c.write(frame[:])
}

// ping sends a ping without waiting for the response.
func (c *spdyConn) ping() error {
	c.writing.Lock()
	id := 2*c.pingCount + 1
	c.pingCount++
	c.writing.Unlock()
	return c.sendPing(id)
}

func (c *spdyConn) sendPing(id uint32) error {
	var frame [frameHeaderSize + 4]byte
	putControl(frame[:], pingFrame, 4)
	binary.BigEndian.PutUint32(frame[frameHeaderSize:], id)
	return c.write(frame[:])
}

func (c *spdyConn) write(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.Write(frame)
	return err
}

// nextFrame reads the next frame header. The payload of the previous frame must be read completely.
func (c *spdyConn) nextFrame() (spdyFrame, error) {
	if _, err := io.ReadFull(c, c.header[:]); err != nil {
		return spdyFrame{}, err
	}
	first, second := binary.BigEndian.Uint32(c.header[:]), binary.BigEndian.Uint32(c.header[4:])
	frame := spdyFrame{flags: byte(second >> 24), size: int(second & (1<<24 - 1))}
	if first&controlBit == 0 {
		frame.stream = first
		return frame, nil
	}
	if first&^0xffff != controlBit|spdyVersion {
		return spdyFrame{}, fmt.Errorf("the kubelet sent an invalid SPDY/3 frame: %x", c.header)
	}
	frame.kind = uint16(first)
	return frame, nil
}

// readID reads the stream or ping ID at the start of a control frame's payload, and discards the
// rest. It returns 0 for a shorter payload.
func (c *spdyConn) readID(frame spdyFrame) (uint32, error) {
	if frame.size < 4 {
		return 0, c.discard(frame.size)
	}
	var number [4]byte
	if _, err := io.ReadFull(c, number[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(number[:]), c.discard(frame.size - 4)
}

func (c *spdyConn) discard(n int) error {
	_, err := io.CopyN(io.Discard, c, int64(n))
	return err
}
