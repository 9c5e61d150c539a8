package gzip

import (
	"math/bits"
	"slices"
)

const (
	maxCodeBits = 15 // of a code of a literal, a length or a distance
	maxMetaBits = 7  // of a code of the width of one of those
)

// code is what stands for a symbol: so many bits, the first one lowest. Width 0: the symbol
// does not occur.
type code struct {
	bits  uint16
	width uint8
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
	widths := limited(depths(used), limit)
	// The rarest come first, and have the longest codes.
	i := 0
	for width := limit; width > 0; width-- {
		for range widths[width] {
			codes[uint16(used[i])].width = uint8(width)
			i++
		}
	}
	number(codes, widths)
	return codes
}

// depths returns how many leaves Huffman's tree has at each depth; those are sorted by their
// counts.
func depths(leaves []uint64) []int {
	n := len(leaves)
	// Nodes are the leaves and what joins two of the rarest nodes there are, which is found
	// in the order of its count, too.
	count := make([]uint64, 2*n-1)
	for i, leaf := range leaves {
		count[i] = leaf >> 16
	}
	parent := make([]int, 2*n-1)
	leaf, joint := 0, n
	for next := n; next < 2*n-1; next++ {
		for range 2 {
			rarest := &leaf
			if leaf == n || joint < next && count[joint] < count[leaf] {
				rarest = &joint
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

// limited returns how many codes there are of each width, up to limit, from how many there
// would be without a limit.
func limited(depths []int, limit int) []int {
	widths := make([]int, limit+1)
	for depth, n := range depths {
		widths[min(depth, limit)] += n
	}
	// Codes that were cut take more than there is: a code of width w takes 1 of 1<<w.
	taken := 0
	for width, n := range widths[1:] {
		taken += n << (limit - width - 1)
	}
	for ; taken > 1<<limit; taken-- {
		// One of the longest goes below one that is shorter, which becomes longer by that.
		width := limit - 1
		for widths[width] == 0 {
			width--
		}
		widths[width]--
		widths[width+1] += 2
		widths[limit]--
	}
	return widths
}

// number gives codes of known widths their bits (RFC 1951, 3.2.2).
func number(codes []code, widths []int) {
	var next [maxCodeBits + 2]uint16
	for width := 1; width < len(widths); width++ {
		next[width+1] = (next[width] + uint16(widths[width])) << 1
	}
	for i := range codes {
		if width := codes[i].width; width > 0 {
			codes[i].bits = bits.Reverse16(next[width]) >> (16 - width)
			next[width]++
		}
	}
}

// Symbols for widths that repeat.
const (
	repeatLast  = 16 // 3 to 6 times, in 2 bits
	repeatNone  = 17 // 3 to 10 times no code, in 3 bits
	repeatNones = 18 // 11 to 138 times, in 7 bits
	metaCodes   = 19
)

// dynamicHead writes the head of a block that has its own codes (RFC 1951, 3.2.7).
func (w *bitWriter) dynamicHead(last bool, lengths, distances []code) {
	lengths, distances = trimmed(lengths, firstLength), trimmed(distances, 1)
	var runs []widthRun
	runs = appendRuns(runs, slices.Concat(lengths, distances))
	var counts [metaCodes]uint32
	for _, r := range runs {
		counts[r.symbol]++
	}
	meta := codesOf(counts[:], maxMetaBits)
	order := [metaCodes]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	sent := metaCodes
	for sent > 4 && meta[order[sent-1]].width == 0 {
		sent--
	}
	final := uint32(0)
	if last {
		final = 1
	}
	w.put(final|2<<1, 3)
	w.put(uint32(len(lengths)-firstLength), 5)
	w.put(uint32(len(distances)-1), 5)
	w.put(uint32(sent-4), 4)
	w.flush()
	for _, symbol := range order[:sent] {
		w.put(uint32(meta[symbol].width), 3)
		w.flush()
	}
	for _, r := range runs {
		w.code(meta[r.symbol])
		w.put(uint32(r.extra), uint32(r.width))
		w.flush()
	}
}

// trimmed leaves out what does not occur at the end, but keeps so many.
func trimmed(codes []code, least int) []code {
	n := len(codes)
	for n > least && codes[n-1].width == 0 {
		n--
	}
	return codes[:n]
}

// widthRun is a symbol for one width or several, and what follows it in so many bits.
type widthRun struct{ symbol, extra, width uint8 }

// appendRuns appends the widths of codes.
func appendRuns(runs []widthRun, codes []code) []widthRun {
	for i := 0; i < len(codes); {
		width, n := codes[i].width, 1
		for i+n < len(codes) && codes[i+n].width == width {
			n++
		}
		i += n
		if width > 0 { // the first one stands for itself
			runs = append(runs, widthRun{symbol: width})
			n--
		}
		for n > 0 {
			r, of := widthRun{symbol: width}, 1
			switch {
			case width > 0 && n >= 3:
				of = min(n, 6)
				r = widthRun{repeatLast, uint8(of - 3), 2}
			case width == 0 && n >= 11:
				of = min(n, 138)
				r = widthRun{repeatNones, uint8(of - 11), 7}
			case width == 0 && n >= 3:
				of = n
				r = widthRun{repeatNone, uint8(of - 3), 3}
			}
			runs = append(runs, r)
			n -= of
		}
	}
	return runs
}
