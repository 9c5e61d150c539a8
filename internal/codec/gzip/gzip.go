// Package gzip compresses lists of similar objects. A general compressor searches a match for each
// position. This one first compares with the corresponding position of the previous object, so most
// of the time is spent comparing memory (match.go). The output is RFC 1952 with the blocks of RFC
// 1951, which any client can read.
package gzip

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	// window is how far back a match may lie (RFC 1951, 2).
	window = 32 << 10
	// lookahead is how much is taken in before it is compressed.
	lookahead = 128 << 10
	// padding permits reads of eight bytes at each filled position.
	padding = 8
)

// Writer compresses its input. Call Reset before the first use. It is not safe for concurrent use.
type Writer struct {
	to      io.Writer
	err     error // of to; no writes follow it
	started bool
	sum     uint32
	size    uint32 // modulo 1<<32, as RFC 1952 has it
	matcher matcher
	block   block
}

// NewWriter returns a Writer of about 400 KiB.
func NewWriter() *Writer {
	return &Writer{matcher: newMatcher(), block: newBlock()}
}

// Reset discards the state and makes the writer write to w.
func (z *Writer) Reset(w io.Writer) {
	z.to, z.err, z.started, z.sum, z.size = w, nil, false, 0, 0
	z.matcher.reset()
	z.block.reset()
}

// Write compresses p and does not retain it. Output is written when a block is full, or by Close.
func (z *Writer) Write(p []byte) (int, error) {
	n := len(p)
	z.sum = crc32.Update(z.sum, crc32.IEEETable, p)
	z.size += uint32(n)
	for z.err == nil {
		p = p[z.matcher.take(p):]
		if len(p) == 0 {
			return n, nil
		}
		z.compress()
	}
	return n - len(p), z.err
}

// compress compresses the input and writes full blocks.
func (z *Writer) compress() {
	for z.matcher.run(&z.block) {
		z.block.encode(false)
		z.send()
	}
}

// send writes the encoded output.
func (z *Writer) send() {
	if z.err != nil {
		return
	}
	if !z.started {
		z.started = true
		// Deflate, no flags, no time, no hint, an unknown system.
		if _, z.err = z.to.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}); z.err != nil {
			z.err = fmt.Errorf("write the header of a gzip stream: %w", z.err)
			return
		}
	}
	if _, err := z.to.Write(z.block.bits.taken()); err != nil {
		z.err = fmt.Errorf("write a block of a gzip stream: %w", err)
	}
}

// Close ends the stream without closing the underlying writer.
func (z *Writer) Close() error {
	z.compress()
	z.block.encode(true)
	z.block.bits.end()
	z.block.bits.out = binary.LittleEndian.AppendUint32(z.block.bits.out, z.sum)
	z.block.bits.out = binary.LittleEndian.AppendUint32(z.block.bits.out, z.size)
	z.send()
	return z.err
}
