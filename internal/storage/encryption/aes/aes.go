// Package aes encrypts stored values with AES, in kube-apiserver's formats: CBC, GCM, and
// GCM with a key of its own for each value. What they append to and take from is a value
// without the prefix that names provider and key. A key of the store authenticates the
// value where the mode can.
package aes

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Sizes of the formats, in bytes.
const (
	nonceSize = 12
	tagSize   = 16
	infoSize  = 32
	// SeedSize is how long a seed is at least.
	SeedSize = 32
)

var errShort = errors.New("the stored data was shorter than the required size")

// CBC is AES-CBC with PKCS #7 padding behind a random initialisation vector. It notices
// changed values only by chance, and not at all one that was moved to another key.
type CBC struct{ block cipher.Block }

// NewCBC returns CBC with a key of 16, 24 or 32 bytes.
func NewCBC(key []byte) (*CBC, error) {
	block, err := aes.NewCipher(key)
	return &CBC{block}, err
}

// Overhead is how much longer a value gets, at most.
func (c *CBC) Overhead() int { return 2 * aes.BlockSize }

// Seal appends the encrypted value to dst.
func (c *CBC) Seal(dst, plain, _ []byte) ([]byte, error) {
	var iv [aes.BlockSize]byte
	_, _ = rand.Read(iv[:]) // it never fails
	dst = append(dst, iv[:]...)
	start := len(dst)
	dst = append(dst, plain...)
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	for range padding {
		dst = append(dst, byte(padding))
	}
	cipher.NewCBCEncrypter(c.block, iv[:]).CryptBlocks(dst[start:], dst[start:])
	return dst, nil
}

// Open returns what was sealed.
func (c *CBC) Open(data, _ []byte) ([]byte, error) {
	if len(data) < aes.BlockSize {
		return nil, errShort
	}
	iv, data := data[:aes.BlockSize], data[aes.BlockSize:]
	if len(data)%aes.BlockSize != 0 {
		return nil, errors.New("the stored data is not a multiple of the block size")
	}
	if len(data) == 0 {
		return nil, errPadding
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(c.block, iv).CryptBlocks(plain, data)
	return unpad(plain)
}

var errPadding = errors.New("invalid PKCS7 data (empty or not padded)")

// unpad takes off the padding: n bytes of the value n.
func unpad(plain []byte) ([]byte, error) {
	n := int(plain[len(plain)-1])
	if n == 0 || n > len(plain) {
		return nil, errPadding
	}
	size := len(plain) - n
	for _, b := range plain[size:] {
		if int(b) != n {
			return nil, errors.New("invalid padding on input")
		}
	}
	return plain[:size], nil
}

// GCM is AES-GCM behind a random nonce. A key is good for 2^32 values, after which two
// nonces may well be the same.
type GCM struct{ aead cipher.AEAD }

// NewGCM returns GCM with a key of 16, 24 or 32 bytes.
func NewGCM(key []byte) (*GCM, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &GCM{aead}, err
}

// Overhead is how much longer a value gets.
func (g *GCM) Overhead() int { return nonceSize + tagSize }

// Seal appends the encrypted value to dst. key is authenticated with it.
func (g *GCM) Seal(dst, plain, key []byte) ([]byte, error) {
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	return g.aead.Seal(append(dst, nonce[:]...), nonce[:], plain, key), nil
}

// Open returns what was sealed with the same key of the store.
func (g *GCM) Open(data, key []byte) ([]byte, error) {
	if len(data) < nonceSize {
		return nil, errShort
	}
	return g.aead.Open(nil, data[:nonceSize], data[nonceSize:], key)
}

// SeededGCM is GCM whose key is derived anew for each value, from a seed and from random
// bytes in front of the value (HKDF-Expand with SHA-256): any number of values can be
// written with one seed.
type SeededGCM struct{ seed []byte }

// NewSeededGCM returns SeededGCM of a seed, which it keeps.
func NewSeededGCM(seed []byte) (*SeededGCM, error) {
	if len(seed) < SeedSize {
		return nil, fmt.Errorf("invalid seed length %d used for key generation", len(seed))
	}
	return &SeededGCM{seed}, nil
}

// Overhead is how much longer a value gets.
func (s *SeededGCM) Overhead() int { return infoSize + nonceSize + tagSize }

// Seal appends the encrypted value to dst. key is authenticated with it.
func (s *SeededGCM) Seal(dst, plain, key []byte) ([]byte, error) {
	var info [infoSize]byte
	_, _ = rand.Read(info[:]) // it never fails
	gcm, err := s.derive(info[:])
	if err != nil {
		return nil, err
	}
	return gcm.Seal(append(dst, info[:]...), plain, key)
}

// Open returns what was sealed with the same key of the store.
func (s *SeededGCM) Open(data, key []byte) ([]byte, error) {
	if len(data) < infoSize {
		return nil, errShort
	}
	gcm, err := s.derive(data[:infoSize])
	if err != nil {
		return nil, err
	}
	return gcm.Open(data[infoSize:], key)
}

func (s *SeededGCM) derive(info []byte) (*GCM, error) {
	key, err := hkdf.Expand(sha256.New, s.seed, string(info), sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the key of a value: %w", err)
	}
	return NewGCM(key)
}
