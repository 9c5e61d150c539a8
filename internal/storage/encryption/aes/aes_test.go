package aes

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

var (
	testKey  = bytes.Repeat([]byte{7}, 32)
	storeKey = []byte("/registry/secrets/a/b")
	secret   = []byte("k8s\x00a secret of some length")
)

type cipherUnderTest interface {
	Overhead() int
	Seal(dst, plain, key []byte) ([]byte, error)
	Open(data, key []byte) ([]byte, error)
}

// ciphers returns all ciphers by name, with the same key.
func ciphers(t testing.TB) map[string]cipherUnderTest {
	t.Helper()
	cbc, err := NewCBC(testKey)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := NewGCM(testKey)
	if err != nil {
		t.Fatal(err)
	}
	seeded, err := NewSeededGCM(testKey)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]cipherUnderTest{"cbc": cbc, "gcm": gcm, "seeded gcm": seeded}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, c := range ciphers(t) {
		for n := range 70 {
			plain := bytes.Repeat([]byte{'p'}, n)
			sealed, err := c.Seal([]byte("prefix"), plain, storeKey)
			if err != nil || !bytes.HasPrefix(sealed, []byte("prefix")) || n > 8 && bytes.Contains(sealed, plain) {
				t.Fatalf("%s of %d bytes: %q, %v", name, n, sealed, err)
			}
			if longer := len(sealed) - n - len("prefix"); longer > c.Overhead() {
				t.Errorf("%s: %d bytes longer, more than %d", name, longer, c.Overhead())
			}
			opened, err := c.Open(sealed[len("prefix"):], storeKey)
			if err != nil || !bytes.Equal(opened, plain) {
				t.Fatalf("%s of %d bytes: opened %q, %v", name, n, opened, err)
			}
		}
	}
}

// TestFormats decrypts values as other implementations of the formats encrypt them. The values are
// constructed here from primitives.
func TestFormats(t *testing.T) {
	t.Parallel()
	block, err := aes.NewCipher(testKey)
	if err != nil {
		t.Fatal(err)
	}
	iv := []byte("0123456789abcdef")
	padding := aes.BlockSize - len(secret)%aes.BlockSize
	padded := append(bytes.Clone(secret), bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(padded, padded)

	info := []byte("information of thirty-two bytes!")
	mac := hmac.New(sha256.New, testKey) // HKDF-Expand, RFC 5869: T(1) = HMAC(seed, info | 0x01)
	mac.Write(info)
	mac.Write([]byte{1})

	for name, stored := range map[string][]byte{
		"cbc":        append(bytes.Clone(iv), padded...),
		"gcm":        sealGCM(t, testKey),
		"seeded gcm": append(bytes.Clone(info), sealGCM(t, mac.Sum(nil))...),
	} {
		opened, err := ciphers(t)[name].Open(stored, storeKey)
		if err != nil || !bytes.Equal(opened, secret) {
			t.Errorf("open the %s format: %q, error %v", name, opened, err)
		}
	}
}

func sealGCM(t *testing.T, key []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := []byte("twelve bytes")
	return aead.Seal(bytes.Clone(nonce), nonce, secret, storeKey)
}

// TestVector checks a NIST test vector for AES-256-GCM (test case 13 of McGrew and Viega).
func TestVector(t *testing.T) {
	t.Parallel()
	gcm, err := NewGCM(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	tag, _ := hex.DecodeString("530f8afbc74536b9a963b4f1c4cb738b")
	if opened, err := gcm.Open(append(make([]byte, 12), tag...), nil); err != nil || len(opened) > 0 {
		t.Errorf("open the test vector: %q, error %v; want no data", opened, err)
	}
}

// TestInvalidValues checks that modified, truncated and moved values are rejected.
func TestInvalidValues(t *testing.T) {
	t.Parallel()
	for name, c := range ciphers(t) {
		sealed, err := c.Seal(nil, secret, storeKey)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(sealed) {
			if opened, err := c.Open(sealed[:n], storeKey); err == nil && bytes.Equal(opened, secret) {
				t.Errorf("%s: a value truncated to %d of %d bytes was decrypted", name, n, len(sealed))
			}
		}
		if name == "cbc" {
			continue // does not authenticate
		}
		if _, err := c.Open(sealed, []byte("/registry/secrets/a/c")); err == nil {
			t.Errorf("%s: a moved value was decrypted", name)
		}
		for i := range sealed {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1
			if _, err := c.Open(changed, storeKey); err == nil {
				t.Errorf("%s: a value with a modified byte %d was decrypted", name, i)
			}
		}
	}
	if _, err := NewSeededGCM(testKey[:31]); err == nil {
		t.Error("a seed of 31 bytes was accepted")
	}
	if _, err := NewCBC(testKey[:31]); err == nil {
		t.Error("NewCBC accepted a key of 31 bytes")
	}
	if _, err := NewGCM(testKey[:31]); err == nil {
		t.Error("NewGCM accepted a key of 31 bytes")
	}
}

func FuzzOpen(f *testing.F) {
	all := ciphers(f)
	for _, c := range all {
		sealed, err := c.Seal(nil, secret, storeKey)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sealed)
	}
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		for name, c := range all {
			if plain, err := c.Open(data, storeKey); err == nil && len(plain) > len(data) {
				t.Errorf("%s: decrypted %d bytes from a value of %d bytes", name, len(plain), len(data))
			}
		}
		if !bytes.Equal(before, data) {
			t.Error("the stored value was changed")
		}
	})
}
