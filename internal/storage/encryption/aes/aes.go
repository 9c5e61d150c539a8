// Package aes encrypts stored values with AES, in kube-apiserver's formats: CBC, GCM, and GCM with
// a derived key per value. It does not add the provider prefix. The GCM modes also authenticate the
// storage key. All ciphers are safe for concurrent use.
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
	// SeedSize is the minimum size of a seed, and the size of new seeds.
	SeedSize = 32
)

var errShort = errors.New("the stored data was shorter than the required size")

// CBC is AES-CBC with PKCS #7 padding and a random initialization vector before the value. It does
// not authenticate values: most modifications, and moving a value to another storage key, are not
// detected. It is safe for concurrent use.
type CBC struct{ block cipher.Block }

// NewCBC returns a CBC with a key of 16, 24 or 32 bytes. It returns an error for other sizes.
func NewCBC(key []byte) (*CBC, error) {
	block, err := aes.NewCipher(key)
	return &CBC{block}, err
}

// Overhead returns the maximum number of bytes by which Seal lengthens a value.
func (c *CBC) Overhead() int { return 2 * aes.BlockSize }

// Seal appends the encrypted value to dst. The third argument is ignored. It returns no error.
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

// Open decrypts the result of Seal into new memory. The second argument is ignored. It returns an
// error if the length or the padding is invalid.
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

// unpad removes the padding, which consists of n bytes with the value n.
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

// GCM is AES-GCM with a random nonce before the value. A key must not encrypt more than 2^32 values, because
// the probability of a repeated nonce is then too high (NIST SP 800-38D). It is safe for concurrent use.
type GCM struct{ aead cipher.AEAD }

// NewGCM returns a GCM with a key of 16, 24 or 32 bytes. It returns an error for other sizes.
func NewGCM(key []byte) (*GCM, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &GCM{aead}, err
}

// Overhead returns the number of bytes by which Seal lengthens a value.
func (g *GCM) Overhead() int { return nonceSize + tagSize }

// Seal appends the encrypted value to dst. The storage key is authenticated with the value. It
// returns no error.
func (g *GCM) Seal(dst, plain, key []byte) ([]byte, error) {
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	return g.aead.Seal(append(dst, nonce[:]...), nonce[:], plain, key), nil
}

// Open decrypts the result of Seal into new memory. It returns an error if the value was modified or sealed
// with another storage key.
func (g *GCM) Open(data, key []byte) ([]byte, error) {
	if len(data) < nonceSize {
		return nil, errShort
	}
	return g.aead.Open(nil, data[:nonceSize], data[nonceSize:], key)
}

// SeededGCM is GCM with a separate key for each value. The key is derived with HKDF-Expand and SHA-256 from a
// seed and from random bytes, which are stored before the value. The number of values per seed is not
// limited. It is safe for concurrent use.
type SeededGCM struct{ seed []byte }

// NewSeededGCM returns a SeededGCM. It takes ownership of seed. The error reports a seed that is
// shorter than SeedSize.
func NewSeededGCM(seed []byte) (*SeededGCM, error) {
	if len(seed) < SeedSize {
		return nil, fmt.Errorf("invalid seed length %d used for key generation", len(seed))
	}
	return &SeededGCM{seed}, nil
}

// Overhead returns the number of bytes by which Seal lengthens a value.
func (s *SeededGCM) Overhead() int { return infoSize + nonceSize + tagSize }

// Seal appends the encrypted value to dst. The storage key is authenticated with the value. It returns an
// error if the key derivation fails.
func (s *SeededGCM) Seal(dst, plain, key []byte) ([]byte, error) {
	var info [infoSize]byte
	_, _ = rand.Read(info[:]) // it never fails
	gcm, err := s.derive(info[:])
	if err != nil {
		return nil, err
	}
	return gcm.Seal(append(dst, info[:]...), plain, key)
}

// Open decrypts the result of Seal into new memory. It returns an error if the value was modified or sealed
// with another storage key.
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
