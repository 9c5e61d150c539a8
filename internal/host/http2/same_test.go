package http2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// exchange is a handler and a request. Clients must see the same response with net/http's server and with
// the server of this package.
type exchange struct {
	name   string
	handle http.HandlerFunc
	method string // GET if empty
	body   io.Reader
	header http.Header
	change func(*http.Request)
}

// seen contains the parts of a response that a client can observe.
type seen struct {
	Err           bool
	Status        int
	Proto         string
	Header        http.Header
	Body          string
	BodyErr       bool
	Trailer       http.Header
	ContentLength int64
	Informed      []string
}

func TestSameAsNetHTTP(t *testing.T) {
	t.Parallel()
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			want, got := x.run(t, false), x.run(t, true)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-net/http +ours:\n%s", diff)
			}
		})
	}
}

func (x *exchange) run(t *testing.T, own bool) *seen {
	s := startServer(t, x.handle, own, func(s *http.Server) { s.MaxHeaderBytes = 8 << 10 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out := &seen{}
	var mu sync.Mutex
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			out.Informed = append(out.Informed, fmt.Sprint(code, header.Get("Link")))
			return nil
		},
	})
	body := x.body
	if b, ok := body.(*bytes.Buffer); ok {
		body = bytes.NewReader(b.Bytes())
	}
	req, err := http.NewRequestWithContext(ctx, x.method, s.url+"/a/b%2Fc?x=1&y", body)
	if err != nil {
		t.Fatal(err)
	}
	for key, values := range x.header {
		req.Header[key] = values
	}
	if x.change != nil {
		x.change(req)
	}
	resp, err := s.client(t).Do(req)
	if err != nil {
		out.Err = true
		return out
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	mu.Lock()
	defer mu.Unlock()
	out.Status, out.Proto, out.Header, out.ContentLength = resp.StatusCode, resp.Proto, resp.Header, resp.ContentLength
	out.Body, out.BodyErr, out.Trailer = string(read), err != nil, resp.Trailer
	if out.BodyErr {
		out.Body = "" // the size of the received part depends on timing
	}
	if _, ok := out.Header["Date"]; ok && out.Header.Get("Date") != "then" {
		out.Header.Set("Date", "a time")
	}
	return out
}

func exchanges() []exchange {
	return append(append(responses(), requests()...), breaks()...)
}

func responses() []exchange {
	big := strings.Repeat("0123456789", 20_000)
	return []exchange{
		{name: "nothing", handle: func(http.ResponseWriter, *http.Request) {}},
		{name: "text", handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") }},
		{name: "pieces", handle: func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				_, _ = fmt.Fprintf(w, "piece %d,", i)
			}
		}},
		{name: "big", handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, big) }},
		{name: "big in pieces", handle: func(w http.ResponseWriter, _ *http.Request) {
			for part := range strings.SplitAfterSeq(big, "9") {
				_, _ = io.WriteString(w, part)
			}
		}},
		{name: "exactly the draft", handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, bodyBufferSize)) }},
		{name: "flushed", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "later")
			w.(http.Flusher).Flush()
		}},
		{name: "status", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "no")
		}},
		{name: "header", handle: func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", "application/json")
			h["X-Many"] = []string{"a", "b"}
			h["lower-case"] = []string{"c"}
			h["Date"] = []string{"then"}
			h["Bad Name"] = []string{"x"}
			h["X-Bad"] = []string{"a\nb", "fine"}
			w.WriteHeader(201)
			h.Set("X-Late", "1")
			_, _ = io.WriteString(w, "{}")
		}},
		{name: "no date, no type", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
			_, _ = io.WriteString(w, "x")
		}},
		{name: "encoded", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "<html>")
		}},
		{name: "length", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "12345")
		}},
		{name: "no length", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "five")
			_, _ = io.WriteString(w, "12345")
		}},
		{name: "too short", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "12345")
		}},
		{name: "too long", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "12345")
			w.(http.Flusher).Flush()
			_, err := io.WriteString(w, "6")
			if err == nil {
				panic("no error")
			}
		}},
		{name: "no content", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}},
		{name: "not modified", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"1"`)
			w.WriteHeader(304)
		}},
		{name: "head", method: "HEAD", handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") }},
		{name: "head, big", method: "HEAD", handle: func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				if n, err := io.WriteString(w, big); n != len(big) || err != nil {
					panic(err)
				}
			}
		}},
		{name: "head, length", method: "HEAD", handle: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "77") }},
		{name: "head, nothing", method: "HEAD", handle: func(http.ResponseWriter, *http.Request) {}},
		{name: "head, flushed", method: "HEAD", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "x")
		}},
		{name: "early hints", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.Header().Set("Content-Length", "1")
			w.WriteHeader(103)
			w.Header().Set("Link", "</b>")
			w.WriteHeader(102)
			_, _ = io.WriteString(w, "x")
		}},
		{name: "trailers", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-A, x-b")
			w.Header().Add("Trailer", "Content-Length, X-C")
			_, _ = io.WriteString(w, "x")
			w.Header().Set("X-A", "1")
			w.Header().Set("X-B", "2")
			w.Header().Set("X-D", "not announced")
		}},
		{name: "trailers without a body", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-A")
			w.WriteHeader(200)
			w.Header().Set("X-A", "1")
		}},
		{name: "trailers that do not come", handle: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Trailer", "X-A") }},
		{name: "trailers by prefix", handle: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, big)
			w.Header().Set(http.TrailerPrefix+"x-a", "1")
			w.Header().Set(http.TrailerPrefix+"Content-Length", "1")
		}},
		{name: "close", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "bye")
		}},
	}
}

// describe responds with the properties of the request that a handler sees.
func describe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	port := r.Host[strings.LastIndexByte(r.Host, ':'):]
	_, _ = fmt.Fprintf(w, "%s %s %s %d %d host=%t remote=%t tls=%t/%s\n", r.Method, strings.ReplaceAll(r.RequestURI, port, ""), r.Proto, r.ProtoMajor, r.ProtoMinor,
		strings.HasPrefix(r.Host, "127.0.0.1:"), strings.HasPrefix(r.RemoteAddr, "127.0.0.1:"), r.TLS != nil, r.TLS.NegotiatedProtocol)
	_, _ = fmt.Fprintf(w, "path=%q raw=%q query=%q opaque=%q\n", r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.Opaque)
	_, _ = fmt.Fprintf(w, "length=%d body=%d %.20q err=%t nobody=%t\n", r.ContentLength, len(body), body, err != nil, r.Body == http.NoBody)
	_, _ = fmt.Fprintf(w, "trailer=%q transfer=%q close=%t\n", r.Trailer, r.TransferEncoding, r.Close)
	_, _ = fmt.Fprintf(w, "server=%t local=%t\n", r.Context().Value(http.ServerContextKey) != nil, r.Context().Value(http.LocalAddrContextKey) != nil)
	for key, values := range r.Header {
		if key != "User-Agent" {
			w.Header()["Got-"+key] = values
		}
	}
}

func requests() []exchange {
	long := bytes.NewBuffer(bytes.Repeat([]byte("long "), 500_000))
	unknown := func(r *http.Request) { r.ContentLength = -1 }
	return []exchange{
		{name: "get", handle: getOnly},
		{name: "options", method: "OPTIONS", handle: getOnly, change: func(r *http.Request) { r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "*", "", "" }},
		{name: "post", method: "POST", handle: describe, body: bytes.NewBufferString("hello")},
		{name: "post long", method: "POST", handle: describe, body: long},
		{name: "post of unknown length", method: "POST", handle: describe, body: long, change: unknown},
		{name: "post nothing", method: "POST", handle: getOnly, body: http.NoBody},
		{name: "form", method: "POST", body: bytes.NewBufferString("a=1&b=2"), header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
			handle: func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				_, _ = fmt.Fprint(w, r.Form.Encode())
			}},
		{name: "request header", handle: getOnly, header: http.Header{"X-Many": {"a", "b"}, "Cookie": {"a=1", "b=2"}, "Accept": {"*/*"}, "Te": {"trailers"}}},
		{name: "te", handle: getOnly, header: http.Header{"Te": {"gzip"}}},
		{name: "host", handle: getOnly, change: func(r *http.Request) { r.Host = "127.0.0.1:other.example" }},
		{name: "long header", handle: getOnly, header: http.Header{"X-Long": {strings.Repeat("x", 9000)}}},
		{name: "request trailers", method: "POST", handle: describe, body: bytes.NewBufferString("hello"), change: func(r *http.Request) {
			r.ContentLength = -1
			r.Trailer = http.Header{"X-Sum": {"7"}, "X-Other": nil}
		}},
		{name: "expect", method: "POST", handle: describe, body: bytes.NewBufferString("hello"), header: http.Header{"Expect": {"100-continue"}}},
		{name: "expect, refused", method: "POST", body: long, header: http.Header{"Expect": {"100-continue"}},
			handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(417) }},
		{name: "body not read", method: "POST", body: long, handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no") }},
		{name: "body read in part", method: "POST", body: long, handle: func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadFull(r.Body, make([]byte, 100_000))
			_, _ = fmt.Fprint(w, err)
		}},
		{name: "body closed", method: "POST", body: long, handle: func(w http.ResponseWriter, r *http.Request) {
			_ = r.Body.Close()
			n, err := r.Body.Read(make([]byte, 10))
			_, _ = fmt.Fprint(w, n, err != nil)
		}},
		{name: "body too large", method: "POST", body: long, handle: func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1000))
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}},
		{name: "echo", method: "POST", body: long, handle: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			_, _ = io.Copy(w, r.Body)
		}},
	}
}

func getOnly(w http.ResponseWriter, r *http.Request) {
	r.Body = io.NopCloser(strings.NewReader("")) // the type of an empty body is unspecified
	describe(w, r)
}

func breaks() []exchange {
	return []exchange{
		{name: "panic", handle: func(http.ResponseWriter, *http.Request) { panic("on purpose") }},
		{name: "panic late", handle: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic("on purpose")
		}},
		{name: "abort", handle: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{name: "abort late", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{name: "bad status", handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1) }},
		{name: "read deadline", method: "POST", body: neverEnds{}, handle: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded))
		}},
		{name: "read deadline in the past", method: "POST", body: neverEnds{}, handle: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			_, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded))
		}},
		{name: "write deadline", handle: func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			<-r.Context().Done()
			_, _ = io.WriteString(w, "x")
			if http.NewResponseController(w).Flush() == nil {
				panic("no error")
			}
		}},
		{name: "write deadline in the past", handle: func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
			<-r.Context().Done()
		}},
		{name: "write deadline removed", handle: func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			_ = control.SetWriteDeadline(time.Time{})
			select {
			case <-r.Context().Done():
			case <-time.After(100 * time.Millisecond):
			}
			_, _ = fmt.Fprint(w, r.Context().Err())
		}},
	}
}

// neverEnds is an endless request body.
type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return min(len(p), 10), nil
}
