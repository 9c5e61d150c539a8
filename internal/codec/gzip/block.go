package gzip

import "math/bits"

const (
	// blockTokens is the number of tokens of a block. Each block has its own codes, so it should be
	// long; incomplete blocks are not sent.
	blockTokens = 32 << 10
	// maxMatch is the longest match that has a code; a longer one is several.
	maxMatch = 258

	endOfBlock      = 256
	firstLength     = 257
	litLenSymbols   = 286
	distanceSymbols = 30
)

// token is a literal byte, or a match: isMatch, its length less 3, its distance less 1.
type token uint32

const (
	isMatch     token = 1 << 31
	lengthShift       = 16
)

// block is the data that shares a set of codes.
type block struct {
	tokens []token
	bits   bitWriter
	// How often the symbols of the two alphabets occur (RFC 1951, 3.2.5).
	litLens   [litLenSymbols]uint32
	distances [distanceSymbols]uint32
}

func newBlock() block { return block{tokens: make([]token, 0, blockTokens+1<<10)} }

func (b *block) reset() {
	b.bits = bitWriter{out: b.bits.out[:0]}
	b.empty()
}

func (b *block) empty() {
	b.tokens = b.tokens[:0]
	b.litLens, b.distances = [litLenSymbols]uint32{}, [distanceSymbols]uint32{}
}

func (b *block) full() bool { return len(b.tokens) >= blockTokens }

func (b *block) literals(p []byte) {
	for _, c := range p {
		b.tokens = append(b.tokens, token(c))
		b.litLens[c]++
	}
}

// match adds a match of any length of 4 or more.
func (b *block) match(length, distance int) {
	code, _, _ := distanceCode(uint32(distance - 1))
	for length > 0 {
		n := min(length, maxMatch)
		if rest := length - n; rest > 0 && rest < 3 {
			n -= 3 // shorter ones have no code
		}
		length -= n
		b.tokens = append(b.tokens, isMatch|token(n-3)<<lengthShift|token(distance-1))
		symbol, _, _ := lengthCode(uint32(n - 3))
		b.litLens[symbol]++
		b.distances[code]++
	}
}

// lengthCode returns the code of a length minus 3, and its extra bits (RFC 1951, section 3.2.5).
func lengthCode(n uint32) (code, extra, extraBits uint32) {
	switch {
	case n < 8:
		return firstLength + n, 0, 0
	case n == maxMatch-3:
		return litLenSymbols - 1, 0, 0
	}
	extraBits = uint32(bits.Len32(n)) - 3
	return firstLength + 4*extraBits + n>>extraBits, n & (1<<extraBits - 1), extraBits
}

// distanceCode returns the same of a distance less 1.
func distanceCode(n uint32) (code, extra, extraBits uint32) {
	if n < 4 {
		return n, 0, 0
	}
	extraBits = uint32(bits.Len32(n)) - 2
	return 2*extraBits + n>>extraBits, n & (1<<extraBits - 1), extraBits
}

// encode encodes the block, and makes it empty.
func (b *block) encode(last bool) {
	b.litLens[endOfBlock]++
	litLens, distances := codesOf(b.litLens[:], maxCodeBits), codesOf(b.distances[:], maxCodeBits)
	b.bits.reserve(len(b.tokens)*7 + 1024)
	b.bits.dynamicHead(last, litLens, distances)
	for _, t := range b.tokens {
		if t < endOfBlock {
			b.bits.code(litLens[t])
			continue
		}
		code, extra, extraBits := lengthCode(uint32(t&^isMatch) >> lengthShift)
		b.bits.code(litLens[code])
		b.bits.put(extra, extraBits)
		b.bits.flush()
		code, extra, extraBits = distanceCode(uint32(t) & (window - 1))
		b.bits.code(distances[code])
		b.bits.put(extra, extraBits)
		b.bits.flush()
	}
	b.bits.code(litLens[endOfBlock])
	b.empty()
}
