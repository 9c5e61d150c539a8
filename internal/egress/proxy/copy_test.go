package proxy_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"mainstay.dev/mainstay/internal/egress/proxy"
)

// TestCopy checks that data is copied and flushed for reads of different sizes.
func TestCopy(t *testing.T) {
	t.Parallel()
	text := make([]byte, 200_000)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(text)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "data with the final error": iotest.DataErrReader,
	} {
		var got bytes.Buffer
		flushes := 0
		n, err := new(proxy.Proxy).Copy(&got, wrap(bytes.NewReader(text)), func() error { flushes++; return nil })
		if err != nil || n != int64(len(text)) || !bytes.Equal(got.Bytes(), text) || flushes == 0 {
			t.Errorf("%s: %d bytes, %v, %d flushes", name, n, err, flushes)
		}
	}
	if _, err := new(proxy.Proxy).Copy(io.Discard, iotest.ErrReader(io.ErrClosedPipe), nil); err != io.ErrClosedPipe {
		t.Error(err)
	}
}
