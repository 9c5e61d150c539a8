package storage

import (
	"bytes"
	"context"
	"errors"
)

// Transformer changes values on their way to and from the backend: encryption
// at rest. The key of the entry is authenticated with the value, so that values
// cannot be moved from one object to another.
type Transformer interface {
	// FromStorage returns the value as it was before ToStorage. stale
	// reports that it was not transformed with the current key or provider, and
	// should be rewritten by the next update. data is not changed; plain
	// may share its memory.
	FromStorage(ctx context.Context, data []byte, key string) (plain []byte, stale bool, err error)
	// ToStorage returns the stored form of a value. It does not modify plain; the result may share
	// its memory.
	ToStorage(ctx context.Context, plain []byte, key string) ([]byte, error)
}

// Changeable is a Transformer that may become another one while it is used.
type Changeable interface {
	Transformer
	// IsIdentity reports whether it is Identity now.
	IsIdentity() bool
}

// storesPlain reports whether values are stored as they are.
func (s *Store) storesPlain() bool {
	if changeable, ok := s.transformer.(Changeable); ok {
		return changeable.IsIdentity()
	}
	return s.transformer == (Identity{})
}

// Identity is the Transformer without a change. It rejects values that another Transformer
// encrypted.
type Identity struct{}

// encryptedPrefix is the prefix of the values of all other Transformers. JSON and protobuf
// ("k8s\x00") have other prefixes.
const encryptedPrefix = "k8s:enc:"

var errEncrypted = errors.New("identity transformer tried to read encrypted data")

// FromStorage implements Transformer.
func (Identity) FromStorage(_ context.Context, data []byte, _ string) ([]byte, bool, error) {
	if bytes.HasPrefix(data, []byte(encryptedPrefix)) {
		return nil, false, errEncrypted
	}
	return data, false, nil
}

// ToStorage implements Transformer.
func (Identity) ToStorage(_ context.Context, plain []byte, _ string) ([]byte, error) {
	return plain, nil
}
