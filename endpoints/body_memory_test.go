package endpoints

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

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
				got, err := readAll(r, int64(tt.length))
				if !bytes.Equal(got, sent) || !errors.Is(err, tt.err) {
					t.Errorf("%d bytes, %s, %s: %d bytes, %v", size, tt.name, name, len(got), err)
				}
			}
		}
	}
}

// TestReadAllMemory: memory is for what has come, not for what was announced.
func TestReadAllMemory(t *testing.T) {
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			_, _ = readAll(bytes.NewReader(make([]byte, 100)), DefaultMaxBodyBytes)
		}
	})
	if got := result.AllocedBytesPerOp(); got > 2*firstBodyBuffer {
		t.Errorf("100 bytes of a body that announced %d took %d bytes of memory", DefaultMaxBodyBytes, got)
	}
}
