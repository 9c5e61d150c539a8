package kubelet

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Frames of SPDY/3.1. A control frame begins with its version and type, a data frame with
// the number of its stream.
const (
	frameHead = 8
	// controlBit is set in the first 4 bytes of control frames, along with the version.
	controlBit  = 1 << 31
	spdyVersion = 3 << 16
	// finFlag ends the sender's direction of a stream.
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

// dictionarySum is the Adler-32 of the dictionary that headers of SPDY/3 are compressed with.
const dictionarySum = 0xe3c6a7c2

// spdyFrame is the head of a frame; its payload follows on the connection.
type spdyFrame struct {
	kind   uint16 // of a control frame; 0: data
	stream uint32 // of data
	flags  byte
	size   int
}

// spdyConn is the client's end of a SPDY/3.1 connection. It does not compress and ignores headers,
// so a waiting session needs neither compressors, which use almost a megabyte each, nor queues. One
// goroutine reads frames, several write.
type spdyConn struct {
	io.ReadWriteCloser

	writing sync.Mutex
	opened  uint32 // how many streams were
	pinged  uint32
	head    [frameHead]byte // of the frame that is read
}

// openStream opens the next stream, with one header, and returns its number.
func (c *spdyConn) openStream(name, value string) (uint32, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	id := 2*c.opened + 1
	frame := make([]byte, frameHead, 128)
	frame = binary.BigEndian.AppendUint32(frame, id)
	frame = append(frame, 0, 0, 0, 0, 0, 0) // belongs to no other stream, has no priority
	if c.opened == 0 {
		frame = append(frame, 0x78, 0x20) // zlib, with a dictionary
		frame = binary.BigEndian.AppendUint32(frame, dictionarySum)
	}
	frame = appendStored(frame, appendHeader(nil, name, value))
	frame = appendStored(frame, nil) // flush the decoder of the peer
	putControl(frame, synStreamFrame, len(frame)-frameHead)
	c.opened++
	_, err := c.Write(frame)
	return id, err
}

// appendHeader appends a block with one header.
func appendHeader(dst []byte, name, value string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 1)
	for _, text := range []string{name, value} {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
		dst = append(dst, text...)
	}
	return dst
}

// appendStored appends an uncompressed block of DEFLATE (RFC 1951, section 3.2.4) with p.
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

// send sends data on a stream: the content of the buffer after the space for the frame header.
func (c *spdyConn) send(stream uint32, buffer []byte) error {
	binary.BigEndian.PutUint32(buffer, stream)
	binary.BigEndian.PutUint32(buffer[4:], uint32(len(buffer)-frameHead))
	return c.write(buffer)
}

// end ends a stream in this direction.
func (c *spdyConn) end(stream uint32) error {
	var frame [frameHead]byte
	binary.BigEndian.PutUint32(frame[:], stream)
	frame[4] = finFlag
	return c.write(frame[:])
}

// ping sends a ping without waiting for the response.
func (c *spdyConn) ping() error {
	c.writing.Lock()
	id := 2*c.pinged + 1
	c.pinged++
	c.writing.Unlock()
	return c.sendPing(id)
}

func (c *spdyConn) sendPing(id uint32) error {
	var frame [frameHead + 4]byte
	putControl(frame[:], pingFrame, 4)
	binary.BigEndian.PutUint32(frame[frameHead:], id)
	return c.write(frame[:])
}

func (c *spdyConn) write(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.Write(frame)
	return err
}

// next reads the head of the next frame. The payload of the one before has been read.
func (c *spdyConn) next() (spdyFrame, error) {
	if _, err := io.ReadFull(c, c.head[:]); err != nil {
		return spdyFrame{}, err
	}
	first, second := binary.BigEndian.Uint32(c.head[:]), binary.BigEndian.Uint32(c.head[4:])
	frame := spdyFrame{flags: byte(second >> 24), size: int(second & (1<<24 - 1))}
	if first&controlBit == 0 {
		frame.stream = first
		return frame, nil
	}
	if first&^0xffff != controlBit|spdyVersion {
		return spdyFrame{}, fmt.Errorf("the kubelet sent an invalid SPDY/3 frame: %x", c.head)
	}
	frame.kind = uint16(first)
	return frame, nil
}

// number reads the number that the payload of most control frames begins with, a stream's
// or a ping's, and passes over the rest.
func (c *spdyConn) number(frame spdyFrame) (uint32, error) {
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
