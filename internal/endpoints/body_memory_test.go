package endpoints

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func unbounded(int) error { return nil }

func TestReadAll(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, firstBodyBuffer - 1, firstBodyBuffer, firstBodyBuffer + 1, 3 << 20} {
		sent := bytes.Repeat([]byte("x"), size)
		for _, tt := range []struct {
			name   string
			length int
			err    error
		}{
			{"announced", size, nil},
			{"not announced", -1, nil},
			{"cut short", size + 1, io.ErrUnexpectedEOF},
		} {
			for name, r := range map[string]io.Reader{
				"at once": bytes.NewReader(sent), "with its end": iotest.DataErrReader(bytes.NewReader(sent)),
				"in halves": iotest.HalfReader(bytes.NewReader(sent)),
			} {
				got, err := readAll(r, int64(tt.length), unbounded)
				if !bytes.Equal(got, sent) || !errors.Is(err, tt.err) {
					t.Errorf("%d bytes, %s, %s: %d bytes, %v", size, tt.name, name, len(got), err)
				}
			}
		}
	}
}

// TestReadAllMemory checks that memory is allocated for the received data, not for the declared length.
func TestReadAllMemory(t *testing.T) {
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, _ = readAll(bytes.NewReader(make([]byte, 100)), DefaultMaxBodyBytes, unbounded)
		}
	})
	if got := result.AllocedBytesPerOp(); got > 2*firstBodyBuffer {
		t.Errorf("100 bytes of a body with a declared length of %d took %d bytes of memory", DefaultMaxBodyBytes, got)
	}
}

// TestReadAllRoom checks that room is called with the complete buffer size before the buffer is allocated.
func TestReadAllRoom(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	for _, length := range []int64{3 << 20, -1} {
		requested := 0
		room := func(bytes int) error {
			if requested = bytes; bytes > 1<<20 {
				return full
			}
			return nil
		}
		body, err := readAll(bytes.NewReader(make([]byte, 3<<20)), length, room)
		if !errors.Is(err, full) || len(body) > 1<<20 || requested > 2<<20 {
			t.Errorf("announced %d: %d bytes, requested %d, %v", length, len(body), requested, err)
		}
	}
}
