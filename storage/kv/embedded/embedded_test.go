package embedded

import (
	"testing"

	"mainstay.dev/mainstay/storage/kv"
)

func TestSmoke(t *testing.T) {
	for _, cfg := range []Config{{InMemory: true}, {Dir: t.TempDir()}} {
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Commit(t.Context(), kv.Op{Key: "a", Value: []byte("1")})
		t.Log(r, err)
		r, err = s.Commit(t.Context(), kv.Op{Key: "a", Value: []byte("2"), Expect: r.Revision})
		t.Log(r, err)
		r, err = s.Commit(t.Context(), kv.Op{Key: "b", Value: []byte("2"), Expect: r.Revision})
		t.Log(r, err)
		rr, err := s.Range(t.Context(), kv.RangeRequest{})
		t.Log(rr, err)
		rr, err = s.Range(t.Context(), kv.RangeRequest{Start: "b", End: "a"})
		t.Log(rr, err)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
