package secretbox

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func newBox(t testing.TB) *Box {
	t.Helper()
	box, err := New(bytes.Repeat([]byte{7}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	box := newBox(t)
	for n := range 40 {
		plain := bytes.Repeat([]byte{'p'}, n)
		sealed, err := box.Seal([]byte("prefix"), plain, nil)
		if err != nil || len(sealed) != len("prefix")+n+box.Overhead() || !bytes.HasPrefix(sealed, []byte("prefix")) {
			t.Fatalf("%d bytes: %q, %v", n, sealed, err)
		}
		sealed = sealed[len("prefix"):]
		if opened, err := box.Open(sealed, nil); err != nil || !bytes.Equal(opened, plain) {
			t.Fatalf("%d bytes: %q, %v", n, opened, err)
		}
		for i := range sealed {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1
			if _, err := box.Open(changed, nil); err == nil {
				t.Errorf("a value with a modified byte %d was decrypted", i)
			}
			if _, err := box.Open(sealed[:i], nil); err == nil {
				t.Errorf("a value truncated to %d of %d bytes was decrypted", i, len(sealed))
			}
		}
	}
	if _, err := New(make([]byte, 31)); err == nil {
		t.Error("a key of 31 bytes was accepted")
	}
}

// TestVector decrypts the box of NaCl's tests (tests/secretbox.c).
func TestVector(t *testing.T) {
	t.Parallel()
	unhex := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	box, err := New(unhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389"))
	if err != nil {
		t.Fatal(err)
	}
	stored := unhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37" + // the nonce
		"f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186a" +
		"c0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae" +
		"90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5")
	opened, err := box.Open(stored, nil)
	if err != nil || len(opened) != 131 || !bytes.HasPrefix(opened, unhex("be075fc53c81f2d5cf141316ebeb0c7b")) {
		t.Errorf("%x, %v", opened, err)
	}
}

func FuzzOpen(f *testing.F) {
	box := newBox(f)
	sealed, err := box.Seal(nil, []byte("a secret"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		_, _ = box.Open(data, nil)
		if !bytes.Equal(before, data) {
			t.Error("the stored value was changed")
		}
	})
}
