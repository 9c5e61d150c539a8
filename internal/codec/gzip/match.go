package gzip

import (
	"encoding/binary"
	"math/bits"
)

const (
	// minMatch is the shortest match that is looked for. Deflate has shorter ones, which
	// save little.
	minMatch = 4
	// stride is how many bytes of a match lie between two places that are remembered. A later
	// match that begins between two of them is found at the second and grows backwards.
	stride    = 32
	tableBits = 14
	// skipAfter is the number of bytes without a match after which every second position is
	// searched; after twice as many, every third. This keeps random data fast.
	skipAfter = 16
)

// matcher finds repetitions.
type matcher struct {
	// bytes is the input up to filled, of which run has processed the part before seen. It contains
	// at least one window of past input, if available.
	bytes        []byte
	seen, filled int
	// base is the place of bytes[0] in the stream, modulo 1<<32.
	base uint32
	// distance is the distance of the last match, which is usually the length of an object; 0
	// before the first match.
	distance int
	// table contains stream positions modulo 1<<32, by a hash of six bytes. Positions may be stale,
	// so matches are always compared.
	table [1 << tableBits]uint32
}

func newMatcher() matcher { return matcher{bytes: make([]byte, window+lookahead+padding)} }

func (m *matcher) reset() {
	m.seen, m.filled, m.base, m.distance = 0, 0, 0, 0
	clear(m.table[:])
}

// take copies as much of p as fits and returns the number of bytes.
func (m *matcher) take(p []byte) int {
	if room := window + lookahead - m.filled; room < len(p) && m.seen == m.filled && m.filled > window {
		past := m.filled - window
		copy(m.bytes, m.bytes[past:m.filled])
		m.base += uint32(past)
		m.seen, m.filled = window, window
	}
	n := copy(m.bytes[m.filled:window+lookahead], p)
	m.filled += n
	return n
}

// hash is one of the low six bytes of x.
func hash(x uint64) uint64 { return ((x << 16) * 0x9e3779b97f4a7c15) >> (64 - tableBits) }

// run adds tokens to a block and reports whether the block is full.
func (m *matcher) run(to *block) (full bool) {
	all, i, pending := m.bytes, m.seen, m.seen // pending is not in the block yet
	end := m.filled
	for i+padding <= end {
		x := binary.LittleEndian.Uint64(all[i:])
		distance := m.distance
		if distance == 0 || uint32(x) != binary.LittleEndian.Uint32(all[i-distance:]) {
			place := &m.table[hash(x)]
			distance = int(m.base + uint32(i) - *place)
			*place = m.base + uint32(i)
			if distance <= 0 || distance > min(i, window) || uint32(x) != binary.LittleEndian.Uint32(all[i-distance:]) {
				i += 1 + (i-pending)/skipAfter
				continue
			}
		}
		length := minMatch + common(all[i+minMatch:end], all[i+minMatch-distance:])
		for i > pending && i > distance && all[i-1] == all[i-1-distance] {
			i--
			length++
		}
		to.literals(all[pending:i])
		to.match(length, distance)
		m.distance = distance
		for j := i + stride; j < i+length-padding; j += stride {
			m.table[hash(binary.LittleEndian.Uint64(all[j:]))] = m.base + uint32(j)
		}
		i += length
		pending = i
		if to.full() {
			m.seen = i
			return true
		}
	}
	to.literals(all[pending:end])
	m.seen = end
	return to.full()
}

// common returns how many bytes a begins with that b begins with, too. b is not the shorter one.
func common(a, b []byte) int {
	n := 0
	const step = 128
	for len(a)-n >= step && string(a[n:n+step]) == string(b[n:n+step]) {
		n += step
	}
	for len(a)-n >= 8 {
		if diff := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); diff != 0 {
			return n + bits.TrailingZeros64(diff)/8
		}
		n += 8
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
