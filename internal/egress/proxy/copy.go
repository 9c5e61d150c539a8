package proxy

import "io"

// idleSize is the buffer size of an idle stream, in bytes.
const idleSize = 512

// Copy copies src to dst until io.EOF, for which it returns a nil error. It calls flush, if not nil, after
// each write. It waits for data with a small buffer, and uses a large buffer only while reads return at least
// as much data as the small buffer can hold.
func (p *Proxy) Copy(dst io.Writer, src io.Reader, flush func() error) (written int64, err error) {
	small := make([]byte, idleSize)
	buffer := small
	defer func() {
		if len(buffer) > idleSize {
			p.buffers.Put(buffer)
		}
	}()
	for {
		n, readErr := src.Read(buffer)
		if n > 0 {
			m, err := dst.Write(buffer[:n])
			written += int64(m)
			if err == nil && flush != nil {
				err = flush()
			}
			if err != nil {
				return written, err
			}
		}
		switch {
		case readErr == io.EOF:
			return written, nil
		case readErr != nil:
			return written, readErr
		case n == idleSize && len(buffer) == idleSize:
			buffer = p.buffers.Get()
		case n < idleSize && len(buffer) > idleSize:
			p.buffers.Put(buffer)
			buffer = small
		}
	}
}

// WithBuffer calls f with a buffer of 32 KiB from a pool and returns its error. f must not retain
// the buffer.
func (p *Proxy) WithBuffer(f func(buffer []byte) error) error {
	buffer := p.buffers.Get()
	defer p.buffers.Put(buffer)
	return f(buffer)
}
