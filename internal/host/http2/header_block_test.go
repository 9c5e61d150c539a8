package http2

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestHeaderFields checks that headerOf returns all values of single and repeated fields, in order.
func TestHeaderFields(t *testing.T) {
	t.Parallel()
	block := &h2.MetaHeadersFrame{}
	want := http.Header{}
	block.Fields = append(block.Fields, hpack.HeaderField{Name: ":method", Value: "GET"})
	for i := range 300 {
		f := hpack.HeaderField{Name: fmt.Sprintf("x-%d", i%70), Value: fmt.Sprint(i)}
		block.Fields = append(block.Fields, f)
		want.Add(f.Name, f.Value)
		if got := headerOf(block); !cmp.Equal(got, want) {
			t.Fatalf("after %d fields: %s", i+1, cmp.Diff(want, got))
		}
	}
}

// TestHeaderMemory checks that repeated field names do not increase the memory of a header.
func TestHeaderMemory(t *testing.T) {
	block := &h2.MetaHeadersFrame{Fields: slices.Repeat([]hpack.HeaderField{{Name: "a", Value: "x"}}, MaxHeaderFields)}
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			headerOf(block)
		}
	})
	if got, most := result.AllocedBytesPerOp(), int64(MaxHeaderFields*16+4<<10); got > most {
		t.Errorf("%d fields took %d bytes, want at most %d", MaxHeaderFields, got, most)
	}
}

// TestHeaderAfterLimit checks that the next header is decoded correctly after a header that exceeds
// a limit. HPACK requires that the rejected header was decoded completely.
func TestHeaderAfterLimit(t *testing.T) {
	t.Parallel()
	r := connect(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200 + len(r.Header.Get("X-Late")))
	}, nil)
	request := []string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"}
	r.request(1, true, append(append(request, slices.Repeat([]string{"a", "b"}, MaxHeaderFields)...), "x-late", strings.Repeat("x", 7))...)
	r.await("HEADERS 1 431")
	r.request(3, true, append(request, "x-late", strings.Repeat("x", 7))...)
	r.await("HEADERS 3 207 end")
	r.request(5, true, append(request, slices.Repeat([]string{"a", "b"}, MaxHeaderFields-10)...)...)
	r.await("HEADERS 5 200 end")
}
