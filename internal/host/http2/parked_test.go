package http2

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	h2 "golang.org/x/net/http2"
)

// parkedStream is a stream with a detached response, which sends data when it is resumed.
type parkedStream struct {
	*response
	mu    sync.Mutex
	lines [][]byte
	ended bool
	runs  atomic.Int64
	over  chan struct{} // closed when the request's context ends
}

func (p *parkedStream) send(line []byte) {
	p.mu.Lock()
	p.lines = append(p.lines, line)
	p.mu.Unlock()
	p.Resume()
}

func (p *parkedStream) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.Resume()
}

func (p *parkedStream) next() (line []byte, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return nil, p.ended
	}
	line = p.lines[0]
	p.lines = p.lines[1:]
	return line, false
}

// parking returns a handler that detaches each response and sends the stream to the channel.
func parking(streams chan<- *parkedStream) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		flush(w)
		p, ctx := &parkedStream{response: w.(*response), over: make(chan struct{})}, r.Context()
		p.Detach(func() bool {
			if p.runs.Add(1) == 1 {
				streams <- p
			}
			for {
				if ctx.Err() != nil {
					close(p.over)
					return true
				}
				line, ended := p.next()
				switch {
				case ended:
					return true
				case string(line) == "panic":
					panic("a reason")
				case line == nil:
					return false
				}
				_ = p.Send(line)
			}
		})
	}
}

// TestParked checks that Resume runs only the stream it is called for, and that a parked stream
// ends when its function returns true or panics, or when the client disconnects.
func TestParked(t *testing.T) {
	t.Parallel()
	streams := make(chan *parkedStream, 10)
	r := connect(t, parking(streams), nil)
	var p []*parkedStream
	for id := range uint32(4) {
		r.request(2*id+1, true)
		p = append(p, <-streams)
	}
	for _, s := range p {
		s.send([]byte("hello"))
	}
	for _, want := range []string{"DATA 1 5", "DATA 3 5", "DATA 5 5", "DATA 7 5"} {
		r.await(want)
	}
	p[0].send([]byte("panic"))
	r.await("RST 1 INTERNAL_ERROR")
	p[1].end()
	r.await("DATA 3 0 end")
	r.ok(r.frames.WriteRSTStream(5, h2.ErrCodeCancel))
	<-p[2].over
	p[3].Cancel(nil)
	<-p[3].over
	r.await("DATA 7 0 end")
	for _, s := range p {
		s.Resume() // has no effect after the end
	}
}

// TestParkedWait checks that a stream whose window is exhausted does not block other streams, and that it
// continues when the client extends the window.
func TestParkedWait(t *testing.T) {
	t.Parallel()
	streams := make(chan *parkedStream, 10)
	r := connect(t, parking(streams), nil)
	r.ok(r.frames.WriteWindowUpdate(0, 1<<20))
	r.request(1, true)
	slow := <-streams
	r.request(3, true)
	quick := <-streams
	slow.send(bytes.Repeat([]byte("x"), 2*minWindow))
	r.await("DATA 1 35")
	for range 10 {
		slow.Resume()
		quick.send([]byte("hello"))
		r.await("DATA 3 5")
	}
	r.ok(r.frames.WriteWindowUpdate(1, minWindow+100))
	r.await("DATA 1 35")
	slow.send([]byte("go on"))
	r.await("DATA 1 5")
}

// TestParkedTogether checks that the data of many streams that are resumed concurrently is complete
// and in order.
func TestParkedTogether(t *testing.T) {
	t.Parallel()
	const many, rounds = 50, 40
	streams := make(chan *parkedStream, many)
	s := startServer(t, parking(streams), true, nil)
	c := s.client(t)
	bodies := make([]strings.Builder, many)
	var readers sync.WaitGroup
	for i := range many {
		readers.Go(func() {
			response, err := c.Get(s.url)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			var buf bytes.Buffer
			if _, err := buf.ReadFrom(response.Body); err != nil {
				t.Error(err)
			}
			bodies[i].Write(buf.Bytes())
		})
	}
	var want strings.Builder
	var all []*parkedStream
	for range many {
		all = append(all, <-streams)
	}
	var writers sync.WaitGroup
	line := []byte(strings.Repeat("a line of some length ", 100))
	for i := range rounds {
		want.Write(line[:i*50])
		writers.Go(func() {
			for range 3 {
				for _, p := range all {
					p.Resume()
				}
			}
		})
		for _, p := range all {
			p.send(line[:i*50])
		}
	}
	writers.Wait()
	for _, p := range all {
		p.end()
	}
	readers.Wait()
	for i := range bodies {
		if bodies[i].String() != want.String() {
			t.Fatalf("response %d has %d bytes, want %d", i, bodies[i].Len(), want.Len())
		}
	}
}
