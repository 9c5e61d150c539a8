package gzip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	stdgzip "compress/gzip"

	"github.com/klauspost/compress/gzip"
)

// pods returns the encoded items of n similar pods, with different names, UIDs, times and
// addresses.
func pods(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := range n {
		uid := fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<16), r.Uint64()>>16)
		fmt.Fprintf(&b, `{"metadata":{"name":"web-%x-%d","namespace":"team-%d","uid":"%s","resourceVersion":"%d",`, r.Uint32(), i, i%50, uid, 1000+3*i)
		fmt.Fprintf(&b, `"creationTimestamp":"2026-11-%02dT%02d:%02d:%02dZ","labels":{"app":"web-%d"},`, 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), i%97)
		b.WriteString(`"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1"}]},`)
		for c := range 2 + i%2 {
			fmt.Fprintf(&b, `"spec":{"containers":[{"name":"c%d","image":"registry.example/web:1.%d","env":[%s]}]},`, c, i%7, strings.Repeat(`{"name":"A_VARIABLE","value":"what it is"},`, 20))
		}
		fmt.Fprintf(&b, `"status":{"phase":"Running","podIP":"10.%d.%d.%d","containerID":"containerd://%016x%016x%016x%016x"}},`, i>>16, i>>8&255, i&255, r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
	}
	return b.Bytes()
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// compressed writes text in pieces.
func compressed(t testing.TB, z *Writer, text []byte, piece int) []byte {
	t.Helper()
	var to bytes.Buffer
	z.Reset(&to)
	for rest := text; len(rest) > 0; {
		n := min(piece, len(rest))
		if got, err := z.Write(rest[:n]); got != n || err != nil {
			t.Fatalf("%d of %d bytes: %v", got, n, err)
		}
		rest = rest[n:]
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// read decompresses like clients written in Go.
func read(t testing.TB, stream []byte) []byte {
	t.Helper()
	r, err := stdgzip.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRoundTrip checks that arbitrary data in arbitrary pieces can be decompressed, also with a
// reused writer.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	list := pods(500)
	texts := map[string][]byte{
		"nothing":               nil,
		"a byte":                {7},
		"less than a match":     []byte("abc"),
		"zeros":                 make([]byte, 3*(window+lookahead)+5),
		"noise":                 noise(2*lookahead + 77),
		"a list":                list,
		"noise again and again": bytes.Repeat(noise(window-1), 20),
		"out of reach":          bytes.Repeat(noise(window+1), 20),
		"as far as it goes":     bytes.Repeat(noise(window), 20),
		"a list in noise":       bytes.Join([][]byte{noise(lookahead), list, noise(lookahead), list}, nil),
	}
	for length := 250; length < 530; length += 3 { // of matches that are cut
		texts[fmt.Sprint("matches of ", length)] = bytes.Repeat(append(bytes.Repeat([]byte("x"), length), '.', 'y', byte(length)), 4)
	}
	z := NewWriter()
	for name, text := range texts {
		for _, piece := range []int{1, 1000, 32 << 10, lookahead, 1 << 30} {
			if piece == 1 && len(text) > 1<<16 {
				continue
			}
			if got := read(t, compressed(t, z, text, piece)); !bytes.Equal(got, text) {
				t.Errorf("%s in pieces of %d: %d bytes for %d", name, piece, len(got), len(text))
			}
		}
	}
}

// TestSize checks that lists are compressed as well as by a general compressor, and that
// incompressible data hardly grows.
func TestSize(t *testing.T) {
	t.Parallel()
	z := NewWriter()
	list := pods(2000)
	if got, want := len(compressed(t, z, list, lookahead)), len(general(t, list)); got > want*11/10 {
		t.Errorf("a list of %d bytes: %d bytes, %d by others", len(list), got, want)
	}
	random := noise(1 << 20)
	if got := len(compressed(t, z, random, lookahead)); got > len(random)*101/100 {
		t.Errorf("%d random bytes: %d", len(random), got)
	}
}

func general(t testing.TB, text []byte) []byte {
	t.Helper()
	var to bytes.Buffer
	z, err := gzip.NewWriterLevel(&to, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// failing fails after some writes.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestFailedWrites checks that an error is returned, by Close at the latest, and that no data is
// written afterwards.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	text := noise(1 << 20)
	z := NewWriter()
	for left := range 4 {
		to := &failing{left}
		z.Reset(to)
		_, err := z.Write(text)
		if closed := z.Close(); !errors.Is(closed, errFull) || err != nil && !errors.Is(err, errFull) {
			t.Errorf("after %d writes: %v, %v", left, err, closed)
		}
		if to.left != -1 {
			t.Errorf("%d writes after the one that failed", -1-to.left)
		}
	}
}

// TestCodes: no code is longer than allowed, and together they take all there is.
func TestCodes(t *testing.T) {
	t.Parallel()
	fibonacci := make([]uint32, 40)
	for i := range fibonacci {
		fibonacci[i] = 1
		if i > 1 {
			fibonacci[i] = fibonacci[i-1] + fibonacci[i-2]
		}
	}
	alike := make([]uint32, 286)
	for i := range alike {
		alike[i] = 5
	}
	for name, counts := range map[string][]uint32{
		"none": make([]uint32, 30), "one": {0, 0, 9}, "two": {1, 0, 9}, "three": {1, 1, 1}, "fibonacci": fibonacci, "alike": alike, "nineteen": fibonacci[:19],
	} {
		for _, limit := range []int{maxLengthCodeBits, maxCodeBits} {
			if len(counts) > 1<<limit {
				continue
			}
			taken := 0
			for symbol, c := range codesOf(counts, limit) {
				if c.length > 0 {
					taken += 1 << limit >> c.length
				}
				if counts[symbol] > 0 && c.length == 0 || int(c.length) > limit {
					t.Errorf("%s, %d bits: symbol %d has %d", name, limit, symbol, c.length)
				}
			}
			if taken != 1<<limit {
				t.Errorf("%s, %d bits: %d of %d are taken", name, limit, taken, 1<<limit)
			}
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("abcabcabc"), 3, 2)
	f.Add(pods(2), 5, 40)
	f.Add(noise(300), 7, 200)
	z := NewWriter()
	f.Fuzz(func(t *testing.T, text []byte, piece, times int) {
		all := bytes.Repeat(text, max(1, min(times, 1<<20/max(1, len(text)))))
		if got := read(t, compressed(t, z, all, max(1, piece))); !bytes.Equal(got, all) {
			t.Fatalf("%d bytes for %d", len(got), len(all))
		}
	})
}

// BenchmarkList compresses a list of 10,000 pods, and compares this with a general compressor.
func BenchmarkList(b *testing.B) {
	text := pods(10_000)
	b.Run("this", func(b *testing.B) {
		z := NewWriter()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			b.ReportMetric(float64(len(compressed(b, z, text, lookahead))), "bytes")
		}
	})
	b.Run("general", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			b.ReportMetric(float64(len(general(b, text))), "bytes")
		}
	})
}
