package proxy

import (
	"io"
	"net/http"
)

// idleSize is the buffer, in bytes, of a stream that nothing comes on.
const idleSize = 512

// Copy copies until the end of src, without an error for io.EOF, and calls flush, if
// it is not nil, after each write. It costs little while it waits: it reads into a
// small buffer, and takes a large one only for as long as that is filled.
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

// WithBuffer calls f with a large buffer, which is its own until it returns.
func (p *Proxy) WithBuffer(f func(buffer []byte) error) error {
	buffer := p.buffers.Get()
	defer p.buffers.Put(buffer)
	return f(buffer)
}

// tunnelled has the reverse proxy copy an upgraded connection, which may be idle for
// hours, by Copy.
func (p *Proxy) tunnelled(response *http.Response) {
	if connection, ok := response.Body.(io.ReadWriteCloser); ok {
		response.Body = &tunnel{connection, p}
	}
}

// tunnel is an upgraded connection to a backend. io.Copy leaves copying to it.
type tunnel struct {
	io.ReadWriteCloser
	proxy *Proxy
}

// WriteTo implements io.WriterTo.
func (t *tunnel) WriteTo(w io.Writer) (int64, error) { return t.proxy.Copy(w, t.ReadWriteCloser, nil) }

// ReadFrom implements io.ReaderFrom.
func (t *tunnel) ReadFrom(r io.Reader) (int64, error) { return t.proxy.Copy(t.ReadWriteCloser, r, nil) }

// CloseWrite ends one direction, where the connection can.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
