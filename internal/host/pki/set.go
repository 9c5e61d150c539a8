package pki

import (
	"crypto"
	"maps"
)

// Set contains the authorities and keys of one control plane, which are stored together as Files.
// It is immutable.
type Set struct {
	// Clients signs the certificates of users.
	Clients *Authority
	// FrontProxies signs the client certificates by which aggregated servers recognize the control plane.
	FrontProxies *Authority
	// Tokens signs the tokens of service accounts.
	Tokens crypto.Signer

	files memory
}

// OpenSet loads the keys and certificates in files, which maps file names to contents, and creates missing keys
// and certificates. name is part of the subjects of the authorities, to distinguish control planes. OpenSet
// does not modify files, but retains its values. It returns an error if a file is invalid or a certificate has
// expired.
func OpenSet(name string, files map[string][]byte) (*Set, error) {
	s := &Set{files: memory(maps.Clone(files))}
	if s.files == nil {
		s.files = memory{}
	}
	const advice = "restore a backup of the store"
	var err error
	if s.Clients, err = openAuthority(s.files, InMemory, "ca", "mainstay-ca "+name, advice); err != nil {
		return nil, err
	}
	if s.FrontProxies, err = openAuthority(s.files, InMemory, "front-proxy-ca", "front-proxy-ca "+name, advice); err != nil {
		return nil, err
	}
	s.Tokens, err = signingKey(s.files, InMemory)
	return s, err
}

// Files returns the contents of the key and certificate files, by file name. The caller owns the map, but must
// not modify its values.
func (s *Set) Files() map[string][]byte { return maps.Clone(s.files) }
