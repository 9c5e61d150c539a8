package storage

import (
	"bytes"
	"context"
	"errors"
)

// Transformer transforms values between Store and backend, for encryption at rest. The key of an entry is
// authenticated together with the value, so that a value cannot be moved to another object. Implementations
// must be safe for concurrent use, and may block on a key service.
type Transformer interface {
	// FromStorage returns the value that was passed to ToStorage. stale reports that data was transformed
	// with an outdated key or provider and should be rewritten by the next update. FromStorage does not
	// modify data; plain may share memory with data.
	FromStorage(ctx context.Context, data []byte, key string) (plain []byte, stale bool, err error)
	// ToStorage returns the stored form of a value. It does not modify plain; the result may share memory
	// with plain.
	ToStorage(ctx context.Context, plain []byte, key string) ([]byte, error)
}

// Changeable is a Transformer whose configuration can change while it is in use. Like every
// Transformer, it is safe for concurrent use.
type Changeable interface {
	Transformer
	// IsIdentity reports whether values are currently stored unchanged, as with Identity.
	IsIdentity() bool
}

// storesPlain reports whether values are currently stored without a transformation.
func (s *Store) storesPlain() bool {
	if changeable, ok := s.transformer.(Changeable); ok {
		return changeable.IsIdentity()
	}
	return s.transformer == (Identity{})
}

// Identity is the Transformer that does not change values. FromStorage returns an error for encrypted
// values.
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
