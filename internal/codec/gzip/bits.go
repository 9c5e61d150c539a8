package gzip

import (
	"encoding/binary"
	"slices"
)

// bitWriter writes bits, the lowest first. Its methods take for granted that reserve has made
// room.
type bitWriter struct {
	out   []byte
	acc   uint64 // bits that are not in out yet
	count uint32 // how many, fewer than 8 after a flush
}

// reserve makes room for n bytes.
func (w *bitWriter) reserve(n int) { w.out = slices.Grow(w.out, n+padding) }

// put adds up to 32 bits. Between two flushes there may be 56.
func (w *bitWriter) put(value, width uint32) {
	w.acc |= uint64(value) << (w.count & 63)
	w.count += width
}

// code adds the bits of a symbol.
func (w *bitWriter) code(c code) {
	w.put(uint32(c.bits), uint32(c.length))
	w.flush()
}

// flush moves whole bytes to out.
func (w *bitWriter) flush() {
	n := len(w.out)
	binary.LittleEndian.PutUint64(w.out[n:n+padding:cap(w.out)], w.acc)
	w.out = w.out[:n+int(w.count>>3)]
	w.acc >>= w.count &^ 7 & 63
	w.count &= 7
}

// end fills the last byte.
func (w *bitWriter) end() {
	if w.count > 0 {
		w.count = 8
		w.flush()
	}
}

// taken returns the complete bytes. The next write overwrites them.
func (w *bitWriter) taken() []byte {
	out := w.out
	w.out = w.out[:0]
	return out
}
