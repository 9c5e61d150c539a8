// Package secretbox encrypts stored values with XSalsa20 and Poly1305, in kube-apiserver's
// format: a random nonce of 24 bytes, and a box of golang.org/x/crypto/nacl/secretbox. It detects
// modified values, but not values that were moved to another storage key.
package secretbox

import (
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/crypto/nacl/secretbox"
)

const (
	// KeySize is the size of a key, in bytes.
	KeySize   = 32
	nonceSize = 24
)

// Box encrypts values with one key. It is safe for concurrent use.
type Box struct{ key [KeySize]byte }

// New returns a Box with a copy of key. The error reports a key that does not have KeySize bytes.
func New(key []byte) (*Box, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("expected key size 32 for secretbox provider, got %d", len(key))
	}
	return &Box{[KeySize]byte(key)}, nil
}

// Overhead returns the number of bytes by which Seal lengthens a value.
func (b *Box) Overhead() int { return nonceSize + secretbox.Overhead }

// Seal appends the encrypted value to dst. The third argument is ignored. It returns no error.
func (b *Box) Seal(dst, plain, _ []byte) ([]byte, error) {
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	return secretbox.Seal(append(dst, nonce[:]...), plain, &nonce, &b.key), nil
}

// Open decrypts the result of Seal into new memory. The error reports a modified value. The second
// argument is ignored.
func (b *Box) Open(data, _ []byte) ([]byte, error) {
	if len(data) < nonceSize+secretbox.Overhead {
		return nil, errors.New("the stored data was shorter than the required size")
	}
	nonce := [nonceSize]byte(data)
	plain, ok := secretbox.Open(make([]byte, 0, len(data)-nonceSize-secretbox.Overhead), data[nonceSize:], &nonce, &b.key)
	if !ok {
		return nil, errors.New("output array was not large enough for encryption") // kube-apiserver's message for all failures
	}
	return plain, nil
}
