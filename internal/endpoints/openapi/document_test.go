package openapi

import (
	"runtime"
	"testing"
	"time"
	"weak"
)

// TestKeepPlain checks that the uncompressed form of a document is cached for subsequent requests
// and then released.
func TestKeepPlain(t *testing.T) {
	t.Parallel()
	d := New(Config{KeepPlain: 5 * time.Millisecond})
	document, _ := d.V3("version")
	first, err := document.PlainJSON()
	if err != nil {
		t.Fatal(err)
	}
	want, held := string(first), weak.Make(&first[0])
	until := time.Now().Add(time.Minute)
	for {
		runtime.GC()
		if held.Value() == nil && d.cache.free.Load() == maxPlain {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the uncompressed form is still cached")
		}
		time.Sleep(time.Millisecond)
	}
	again, err := document.PlainJSON()
	if err != nil || string(again) != want {
		t.Errorf("built again: %v\n%s\n%s", err, want, again)
	}
	d = New(Config{})
	d.cache.free.Store(0)
	document, _ = d.V3("apis")
	for range 2 {
		if _, err := document.PlainJSON(); err != nil || document.json.plain != nil || d.cache.free.Load() != 0 {
			t.Errorf("cached although the cache is full: %v", err)
		}
	}
	content, err := document.JSON()
	if err != nil {
		t.Fatal(err)
	}
	inflated, err := content.Bytes()
	if plain, _ := document.PlainJSON(); err != nil || string(plain) != string(inflated) {
		t.Errorf("inflated %s, %v", inflated, err)
	}
}
