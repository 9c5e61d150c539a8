package http2

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	h2 "golang.org/x/net/http2"
)

// FuzzFrames sends frames in any order and with any contents. The server must not panic, hang or leak a
// goroutine. synctest detects hangs and leaks.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 1, 20, 2, 1, 5})
	f.Add([]byte{3, 1, 9, 4, 4, 0, 5, 1, 200, 6, 0, 0, 1, 1, 3})
	f.Add([]byte{0, 3, 0, 0, 5, 1, 7, 3, 9, 8, 3, 3, 9, 0, 0, 10, 5, 5, 11, 0, 60})
	f.Add([]byte{0, 1, 2, 1, 1, 255, 12, 1, 1, 7, 1, 255, 0, 3, 3, 7, 0, 255})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 600 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			r := silent(t, fuzzHandler, func(s *http.Server) {
				s.IdleTimeout, s.ReadTimeout, s.WriteTimeout = time.Minute, 10*time.Second, 20*time.Second
				s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 3, MaxReceiveBufferPerStream: 1000, WriteByteTimeout: time.Second}
			})
			r.mayEnd = true
			go func() { _, _ = io.Copy(io.Discard, r.net) }()
			r.preface()
			r.ok(r.frames.WriteSettings())
			for ; len(script) >= 3; script = script[3:] {
				r.scripted(script[0], uint32(script[1]), script[2])
			}
			_ = r.net.Close()
			<-r.done
		})
	})
}

// scripted sends one frame. kind selects its type, and n its contents.
func (r *raw) scripted(kind byte, id uint32, n byte) {
	data := make([]byte, int(n)*8)
	switch kind % 14 {
	case 0:
		methods := []string{"GET", "POST", "HEAD", "PUT", "CONNECT", ""}
		r.request(id, n%2 == 0, ":method", methods[int(n/2)%len(methods)], ":scheme", "https", ":path", "/", ":authority", "a")
	case 1:
		r.ok(r.frames.WriteData(id, n%16 == 15, data))
	case 2:
		r.ok(r.frames.WriteDataPadded(id, n%2 == 0, data[:n%8], data[:n%200]))
	case 3:
		r.ok(r.frames.WriteRSTStream(id, h2.ErrCode(n)))
	case 4:
		r.ok(r.frames.WriteSettings(h2.Setting{ID: h2.SettingID(id % 10), Val: uint32(n) << (id % 25)}))
	case 5:
		r.ok(r.frames.WriteWindowUpdate(id, uint32(n)<<(id%25)))
	case 6:
		r.ok(r.frames.WritePing(n%2 == 0, [8]byte{n}))
	case 7:
		r.ok(r.frames.WriteRawFrame(h2.FrameType(n%16), h2.Flags(n), id, data[:n%64]))
	case 8:
		r.ok(r.frames.WriteGoAway(id, h2.ErrCode(n), nil))
	case 9:
		r.ok(r.frames.WriteSettingsAck())
	case 10:
		r.ok(r.frames.WritePriority(id, h2.PriorityParam{StreamDep: uint32(n)}))
	case 11:
		time.Sleep(time.Duration(n) * 100 * time.Millisecond)
	case 12:
		r.ok(r.frames.WriteContinuation(id, n%2 == 0, r.encode("a", "b")))
	case 13:
		_, _ = r.net.Write(data[:n])
	}
}

// fuzzHandler combines reads, writes, flushes and deadlines.
func fuzzHandler(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	switch r.Method {
	case "POST":
		_, _ = io.Copy(w, r.Body)
	case "PUT":
		_ = control.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = r.Body.Read(make([]byte, 10))
		_ = control.Flush()
		<-r.Context().Done()
	case "CONNECT":
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set(http.TrailerPrefix+"A", "b")
		_, _ = w.Write(make([]byte, 100_000))
	}
}
