package gzip

import (
	"math/bits"
	"slices"
)

const (
	maxCodeBits       = 15 // of a code of a literal, a length or a distance
	maxLengthCodeBits = 7  // maximum length of these codes, in bits
)

// code is the code of a symbol: its bits, lowest first, and their number. Length 0 means that the
// symbol does not occur.
type code struct {
	bits   uint16
	length uint8
}

// codesOf returns the shortest codes of at most limit bits for symbols that occur so often.
// There are two at least, as some readers want.
func codesOf(counts []uint32, limit int) []code {
	codes := make([]code, len(counts))
	used := make([]uint64, 0, len(counts)) // the count, and the symbol in the low 16 bits
	for symbol, n := range counts {
		if n > 0 {
			used = append(used, uint64(n)<<16|uint64(symbol))
		}
	}
	for symbol := 0; len(used) < 2; symbol++ {
		if counts[symbol] == 0 {
			used = append(used, uint64(symbol))
		}
	}
	slices.Sort(used)
	lengths := limitLengths(depths(used), limit)
	// The least frequent symbols have the longest codes.
	i := 0
	for length := limit; length > 0; length-- {
		for range lengths[length] {
			codes[uint16(used[i])].length = uint8(length)
			i++
		}
	}
	assign(codes, lengths)
	return codes
}

// depths returns the number of leaves at each depth of the Huffman tree. leaves are sorted counts.
func depths(leaves []uint64) []int {
	n := len(leaves)
	// Nodes are the leaves, and the joints of the two least frequent nodes, which are created in
	// ascending order of their counts.
	count := make([]uint64, 2*n-1)
	for i, leaf := range leaves {
		count[i] = leaf >> 16
	}
	parent := make([]int, 2*n-1)
	leaf, inner := 0, n
	for next := n; next < 2*n-1; next++ {
		for range 2 {
			rarest := &leaf
			if leaf == n || inner < next && count[inner] < count[leaf] {
				rarest = &inner
			}
			count[next] += count[*rarest]
			parent[*rarest] = next
			*rarest++
		}
	}
	depth := make([]int, 2*n-1) // the last node is the root
	found := make([]int, n)
	for i := 2*n - 3; i >= 0; i-- {
		depth[i] = depth[parent[i]] + 1
		if i < n {
			found[depth[i]]++
		}
	}
	return found
}

// limitLengths returns how many codes there are of each length, up to limit, from how many there
// would be without a limit.
func limitLengths(depths []int, limit int) []int {
	lengths := make([]int, limit+1)
	for depth, n := range depths {
		lengths[min(depth, limit)] += n
	}
	// Truncated codes exceed the code space: a code of length w uses 1 of 1<<w.
	taken := 0
	for length, n := range lengths[1:] {
		taken += n << (limit - length - 1)
	}
	for ; taken > 1<<limit; taken-- {
		// Move one of the longest codes below a shorter one, which becomes longer.
		length := limit - 1
		for lengths[length] == 0 {
			length--
		}
		lengths[length]--
		lengths[length+1] += 2
		lengths[limit]--
	}
	return lengths
}

// assign assigns the canonical codes for the lengths (RFC 1951, section 3.2.2).
func assign(codes []code, lengths []int) {
	var next [maxCodeBits + 2]uint16
	for length := 1; length < len(lengths); length++ {
		next[length+1] = (next[length] + uint16(lengths[length])) << 1
	}
	for i := range codes {
		if length := codes[i].length; length > 0 {
			codes[i].bits = bits.Reverse16(next[length]) >> (16 - length)
			next[length]++
		}
	}
}

// Symbols for lengths that repeat.
const (
	repeatPrevious    = 16 // 3 to 6 times, in 2 bits
	repeatZero        = 17 // 3 to 10 times no code, in 3 bits
	repeatZeroLong    = 18 // 11 to 138 times, in 7 bits
	codeLengthSymbols = 19
)

// dynamicHead writes the head of a block that has its own codes (RFC 1951, 3.2.7).
func (w *bitWriter) dynamicHead(last bool, litLens, distances []code) {
	litLens, distances = trimZeros(litLens, firstLength), trimZeros(distances, 1)
	runs := runsOf(slices.Concat(litLens, distances))
	var counts [codeLengthSymbols]uint32
	for _, r := range runs {
		counts[r.symbol]++
	}
	codeLengthCodes := codesOf(counts[:], maxLengthCodeBits)
	order := [codeLengthSymbols]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	sent := codeLengthSymbols
	for sent > 4 && codeLengthCodes[order[sent-1]].length == 0 {
		sent--
	}
	final := uint32(0)
	if last {
		final = 1
	}
	w.put(final|2<<1, 3)
	w.put(uint32(len(litLens)-firstLength), 5)
	w.put(uint32(len(distances)-1), 5)
	w.put(uint32(sent-4), 4)
	w.flush()
	for _, symbol := range order[:sent] {
		w.put(uint32(codeLengthCodes[symbol].length), 3)
		w.flush()
	}
	for _, r := range runs {
		w.code(codeLengthCodes[r.symbol])
		w.put(uint32(r.extra), uint32(r.extraBits))
		w.flush()
	}
}

// trimZeros removes trailing unused codes down to a minimum number.
func trimZeros(codes []code, least int) []code {
	n := len(codes)
	for n > least && codes[n-1].length == 0 {
		n--
	}
	return codes[:n]
}

// lengthRun is a symbol for one or several code lengths, with its extra bits.
type lengthRun struct{ symbol, extra, extraBits uint8 }

// runsOf returns the lengths of codes, as the head of a block has them.
func runsOf(codes []code) (runs []lengthRun) {
	for i := 0; i < len(codes); {
		length, n := codes[i].length, 1
		for i+n < len(codes) && codes[i+n].length == length {
			n++
		}
		i += n
		if length > 0 { // the first length is coded literally
			runs = append(runs, lengthRun{symbol: length})
			n--
		}
		for n > 0 {
			r, of := lengthRun{symbol: length}, 1
			switch {
			case length > 0 && n >= 3:
				of = min(n, 6)
				r = lengthRun{repeatPrevious, uint8(of - 3), 2}
			case length == 0 && n >= 11:
				of = min(n, 138)
				r = lengthRun{repeatZeroLong, uint8(of - 11), 7}
			case length == 0 && n >= 3:
				of = n
				r = lengthRun{repeatZero, uint8(of - 3), 3}
			}
			runs = append(runs, r)
			n -= of
		}
	}
	return runs
}
